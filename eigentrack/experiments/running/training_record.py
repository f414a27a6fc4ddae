"""A summary of the metrics of a finished run: where the loss ended, when it fell, how high loss and gradients ever went.

If the run had telemetry, the last counts of the eigenvalues of its transition matrices are kept as well.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.files import write_text
from eigentrack.training.run import METRICS_FILE

LINES_KEPT = 500
QUANTILES = (0.1, 0.5, 0.9, 0.99)


@dataclass(frozen=True)
class EigenvalueCounts:
    """Counts of the real parts of eigenvalues in equal bins from -1 to 1, a row for each linear mixer, first layer first."""

    step: int
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class TrainingRecord:
    """Peaks count from the second tenth of the steps on, so that the start, which is always rough, hides no later one."""

    last_loss: float  # mean over the last tenth
    highest_loss: float
    median_gradient: float  # the median norm of the gradient over all parameters, before clipping
    highest_gradient: float
    halved_at: int | None = None  # the step from which the loss, averaged over a hundredth of the run, is half of its first
    gradient_quantiles: tuple[float, ...] = ()  # the quantiles of the same norms, at QUANTILES
    eigenvalues: EigenvalueCounts | None = None

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingRecord:
        """Read a record, also that of an older result, which has no quantiles and no eigenvalues."""
        counts = values.get("eigenvalues")
        rows = None if counts is None else EigenvalueCounts(counts["step"], tuple(map(tuple, counts["rows"])))
        return cls(**{**values, "gradient_quantiles": tuple(values.get("gradient_quantiles", ())), "eigenvalues": rows})


NO_RECORD = TrainingRecord(0.0, 0.0, 0.0, 0.0)  # the record of a run whose first step failed


def read_record(folder: Path) -> TrainingRecord:
    metrics = [json.loads(line) for line in _lines(folder)]
    if not metrics:
        return NO_RECORD
    tenth = max(1, len(metrics) // 10)
    later = metrics[tenth:] or metrics
    gradients = sorted(line["gradient_norm"] for line in later)
    return TrainingRecord(
        last_loss=statistics.mean(line["loss"] for line in metrics[-tenth:]),
        highest_loss=max(line["loss"] for line in later),
        median_gradient=statistics.median(gradients),
        highest_gradient=gradients[-1],
        halved_at=_halved_at(metrics),
        gradient_quantiles=tuple(gradients[round(share * (len(gradients) - 1))] for share in QUANTILES),
        eigenvalues=_last_eigenvalues(metrics),
    )


def _last_eigenvalues(metrics: Sequence[dict[str, Any]]) -> EigenvalueCounts | None:
    for line in reversed(metrics):
        if histograms := line.get("telemetry", {}).get("histograms"):
            return EigenvalueCounts(line["step"], tuple(tuple(gates["eigenvalue"]["counts"]) for gates in histograms.values()))
    return None


def _halved_at(metrics: list[dict[str, float]]) -> int | None:
    size = max(1, len(metrics) // 100)
    windows = [metrics[start : start + size] for start in range(0, len(metrics), size)]
    means = [statistics.mean(line["loss"] for line in window) for window in windows]
    return next((int(window[-1]["step"]) for window, mean in zip(windows, means, strict=True) if mean < means[0] / 2), None)


def thin_metrics(folder: Path) -> None:
    """Keep about 500 lines of the metrics of a finished run, evenly spread, with the last among them."""
    lines = _lines(folder)
    stride = -(-len(lines) // LINES_KEPT)
    kept = "".join(lines[::-1][::stride][::-1])
    write_text(folder / METRICS_FILE, kept)


def _lines(folder: Path) -> list[str]:
    return (folder / METRICS_FILE).read_text().splitlines(keepends=True)
