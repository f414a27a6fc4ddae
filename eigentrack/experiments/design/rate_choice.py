"""The choice of a learning rate by validation, over all seeds or by a pilot alone, and the plan of cells that waits for it.

A pilot trains the first seed at every learning rate; the other seeds then run only at the rate that its validation chose, each
panel and series as soon as its own pilot is over.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.experiments.design.experiment import Key
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.ledger import Ledger, Sweep, SweepOutcome
from eigentrack.experiments.running.task_cell import CellResult


@dataclass(frozen=True)
class Spread:
    """The best, the median and the spread of scores over seeds."""

    best: float
    median: float
    deviation: float  # median absolute deviation


def spread(values: Sequence[float]) -> Spread:
    median = statistics.median(values)
    return Spread(max(values), median, statistics.median(abs(value - median) for value in values))


def choose_rates(results: Sequence[CellResult], seeds: Sequence[int]) -> dict[Key, float]:
    """Return for every panel and series the rate with the highest median validation accuracy over these seeds.

    Ties go to the rate that needed fewer steps (runs may stop when solved), then to the one with the lower loss at the end.
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


@dataclass(frozen=True)
class PilotPlan:
    """The cells of an experiment: those that can run at once, and those that wait until a pilot has chosen their rates."""

    cells: list[Cell]
    seeds: tuple[int, ...]
    pilot: bool

    @property
    def first(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.seed == self.seeds[0] or not self.pilot]

    def later(self, results: Sequence[CellResult]) -> list[Cell]:
        """Return the cells of the other seeds, at the rates that these results of the first cells choose."""
        rates = choose_rates(results, self.seeds[:1]) if self.pilot else {}
        return [cell for cell in self.cells if cell.seed != self.seeds[0] and rates.get((cell.panel, cell.series)) == cell.rate]

    def unlocked_by(self, cell: Cell, results: Mapping[str, CellResult], failures: Mapping[str, str]) -> list[Cell]:
        """Return the cells of this panel and series at the rate that the pilot has chosen, once it has no rate left to try."""
        if not self.pilot or cell.seed != self.seeds[0]:
            return []
        tried = [other for other in self.first if (other.panel, other.series) == (cell.panel, cell.series)]
        if any(other.name not in results and other.name not in failures for other in tried):
            return []
        return self.later([results[other.name] for other in tried if other.name in results])

    def run(self, folder: Path, sweep: Sweep) -> tuple[list[Cell], SweepOutcome]:
        """Run the cells, those of the pilot first; return all cells that were planned in the end, and what became of them."""
        outcome = sweep(self.first, folder, self.unlocked_by)
        if not self.pilot:
            return self.cells, outcome
        cells = self.first + self.later(outcome.results)
        found = {_place(result): result for result in outcome.results}
        # where a pilot was cut short, what an earlier call has finished stays in the report
        rest = [cell for cell in cells if _place(cell) not in found and cell.name not in outcome.failures]
        found |= {_place(result): result for result in Ledger(rest, folder).outcome().results}
        results = tuple(found[_place(cell)] for cell in cells if _place(cell) in found)
        return cells, SweepOutcome(results, outcome.failures, len(cells) - len(results) - len(outcome.failures))


def _place(x: Cell | CellResult) -> tuple[str, str, float, int]:
    """Return the place of a cell, or of its result, in its plan."""
    return x.panel, x.series, x.rate, x.seed


def run_together(plans: Sequence[PilotPlan], folder: Path, sweep: Sweep) -> int:
    """Run all plans in one sweep, so that a device waits for slow cells once and not once for each.

    Return how many cells an interruption has left over.
    """

    def unlock(cell: Cell, results: Mapping[str, CellResult], failures: Mapping[str, str]) -> list[Cell]:
        return [more for plan in plans if cell in plan.first for more in plan.unlocked_by(cell, results, failures)]

    return sweep([cell for plan in plans for cell in plan.first], folder, unlock).unfinished
