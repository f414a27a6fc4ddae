"""The metrics of a run: metrics.jsonl, and events for TensorBoard.

metrics.jsonl gets one line of JSON per step. When a run resumes, the lines after its checkpoint are removed, and the events of
TensorBoard are written again from the start, so that no step occurs twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from eigentrack.files import write_text
from eigentrack.training.telemetry import BINS, RANGES

Metrics = dict[str, Any]


class MetricsLog:
    """The file metrics.jsonl of a run; `history` holds the metrics of the steps before this process."""

    def __init__(self, path: Path, done: int, say: Callable[[str], None]) -> None:
        self.history = _metrics_up_to(path, done)
        self._file, self._say, self._is_failing = path.open("ab", buffering=0), say, False

    def append(self, metrics: Metrics) -> None:
        """Write the metrics of a step; if that fails, continue, and say so for the first step of several."""
        line, before = (json.dumps(metrics) + "\n").encode(), self._file.tell()
        try:
            if self._file.write(line) != len(line):
                raise OSError("no space for the whole line")
            self._is_failing = False
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(before)  # no half line
            if not self._is_failing:
                reason = error.strerror or error
                self._say(f"{self._file.name}: the metrics from step {metrics['step']} on could not be written ({reason})")
            self._is_failing = True

    def close(self) -> None:
        self._file.close()


def _metrics_up_to(path: Path, step: int) -> list[Metrics]:
    """Remove the lines of steps after `step` from the file, and return the metrics of the others."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    # by the step that a line names, not by its place: lines may be lost or incomplete after a full disk
    history = [metrics for line in lines if (metrics := _parsed(line)) is not None and metrics["step"] <= step]
    text = "".join(json.dumps(metrics) + "\n" for metrics in history)
    write_text(path, text)
    return history


def _parsed(line: str) -> Metrics | None:
    """Return the metrics in a line, or None if it is not a line of metrics."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else None


def require_tensorboard() -> None:
    """Raise if the package tensorboard is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise ValueError("--tensorboard needs the package tensorboard: pip install 'eigentrack[tensorboard]'") from None


class TensorBoard:
    """The events of a run for TensorBoard, written again from `history` when the run resumes."""

    def __init__(self, folder: Path, history: list[Metrics]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = SummaryWriter(str(folder))
        for metrics in history:
            self.write(metrics)

    def write(self, metrics: Metrics) -> None:
        """Write the metrics of a step: numbers as scalars with the names of the metrics, histograms as histograms."""
        step, telemetry = metrics["step"], metrics.get("telemetry", {})
        for name, value in metrics.items():
            if name not in ("step", "telemetry"):
                self._writer.add_scalar(name, value, step)
        for kind in ("gradient_norm", "update_ratio"):
            for part, value in telemetry.get(kind, {}).items():
                self._writer.add_scalar(f"{kind}/{part}", value, step)
        for mixer, gates in telemetry.get("histograms", {}).items():
            for gate, counted in gates.items():
                self._add_histogram(f"{mixer}/{gate}", gate, counted, step)

    def close(self) -> None:
        self._writer.close()

    def _add_histogram(self, name: str, gate: str, counted: dict[str, Any], step: int) -> None:
        low, high = RANGES[gate]
        width = (high - low) / BINS
        centres = [low + (place + 0.5) * width for place in range(BINS)]
        counts = counted["counts"]
        self._writer.add_histogram_raw(
            name,
            min=counted["low"],
            max=counted["high"],
            num=sum(counts),
            sum=sum(count * centre for count, centre in zip(counts, centres, strict=True)),
            sum_squares=sum(count * centre**2 for count, centre in zip(counts, centres, strict=True)),
            bucket_limits=[low + (place + 1) * width for place in range(BINS)],
            bucket_counts=counts,
            global_step=step,
        )
        for extreme in ("low", "high", "modulus"):
            self._writer.add_scalar(f"{name}/{extreme}", counted[extreme], step)
