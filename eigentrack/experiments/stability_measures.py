"""What is read off the runs of `stability`: the loss at the end, whether the gradient exploded, where the eigenvalues ended."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from eigentrack.experiments.cell import CellResult

EXPLOSION = 100  # times the median gradient norm


def explodes(run: CellResult) -> bool:
    return run.record.highest_gradient > EXPLOSION * run.record.median_gradient


def last_loss(runs: Sequence[CellResult]) -> float:
    """Median over the runs."""
    return statistics.median(run.record.last_loss for run in runs)


def eigenvalue_shares(runs: Sequence[CellResult]) -> list[float]:
    """Of all that were counted last, over layers and runs: the share in each bin from -1 to 1. Empty: none were counted."""
    rows = [row for run in runs if run.record.eigenvalues is not None for row in run.record.eigenvalues.rows]
    total = sum(map(sum, rows))
    return [sum(counts) / total for counts in zip(*rows, strict=True)] if total else []


def middle_size(results: Sequence[CellResult]) -> str:
    """Of the sizes in the order of the cells: the one whose eigenvalues are shown."""
    sizes = list(dict.fromkeys(result.series for result in results))
    return sizes[len(sizes) // 2]
