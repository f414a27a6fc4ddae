"""The metrics of a run: metrics.jsonl, and a view of it for TensorBoard.

metrics.jsonl has one line of JSON for each step, written as the run goes, cut back to the checkpoint when the run resumes.
TensorBoard's events are written anew when a run resumes, so that none comes twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigentrack.files import write_text
from eigentrack.training.telemetry import BINS, RANGES

Metrics = dict[str, Any]


class MetricsLog:
    """`history` holds the metrics of the steps that were done before."""

    def __init__(self, path: Path, done: int, say: Callable[[str], None]) -> None:
        self.history = _metrics_up_to(path, done)
        self._file, self._say = path.open("a"), say

    def append(self, metrics: Metrics) -> None:
        try:
            self._file.write(json.dumps(metrics) + "\n")
            self._file.flush()
        except OSError as error:
            self._say(f"the metrics of step {metrics['step']} could not be written ({error}); going on without them")

    def close(self) -> None:
        self._file.close()


def _metrics_up_to(path: Path, step: int) -> list[Metrics]:
    """What was written after the checkpoint is cut off, and written again."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    # by step, not by place: a full disk may have lost a line, or a part of one
    history = [metrics for line in lines if (metrics := _parsed(line)) is not None and metrics["step"] <= step]
    text = "".join(json.dumps(metrics) + "\n" for metrics in history)
    write_text(path, text)
    return history


def _parsed(line: str) -> Metrics | None:
    """None for what is no line of metrics."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else None


def require_tensorboard() -> None:
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise ValueError("--tensorboard needs the package tensorboard: pip install 'eigentrack[tensorboard]'") from None


class TensorBoard:
    def __init__(self, folder: Path, history: list[Metrics]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = SummaryWriter(str(folder))
        for metrics in history:
            self.write(metrics)

    def write(self, metrics: Metrics) -> None:
        """Numbers as scalars named as in the metrics, histograms as histograms."""
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
