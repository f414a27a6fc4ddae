"""The metrics of a run as TensorBoard events: a view of metrics.jsonl, written anew when a run resumes, so none comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eigentrack.training.metrics_log import Metrics
from eigentrack.training.telemetry import BINS, RANGES


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
