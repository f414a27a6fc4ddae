"""Over the seeds of a cell: best, median and median absolute deviation; and the learning rate, chosen on validation alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eigentrack.experiments.cell import CellResult

Key = tuple[str, str]  # panel, series


@dataclass(frozen=True)
class Spread:
    best: float
    median: float
    deviation: float  # median absolute deviation


def spread(values: Sequence[float]) -> Spread:
    median = statistics.median(values)
    return Spread(max(values), median, statistics.median(abs(value - median) for value in values))


def choose_rates(results: Sequence[CellResult], seeds: Sequence[int]) -> dict[Key, float]:
    """For every panel and series the rate with the highest median validation accuracy over these seeds.

    Of equal ones the rate that needed fewer steps (runs may stop when solved), then the one with the lower loss at the end.
    """
    chosen: dict[Key, float] = {}
    for key in dict.fromkeys(result.key for result in results):
        by_rate: dict[float, list[CellResult]] = {}
        for result in results:
            if result.key == key and result.seed in seeds:
                by_rate.setdefault(result.rate, []).append(result)
        if by_rate:
            chosen[key] = max(by_rate, key=lambda rate: _worth(by_rate[rate]))
    return chosen


def _worth(results: list[CellResult]) -> tuple[float, float, float]:
    def median(value: Callable[[CellResult], float]) -> float:
        return statistics.median(value(result) for result in results)

    return median(lambda r: r.validation_accuracy), -median(lambda r: r.steps), -median(lambda r: r.record.last_loss)
