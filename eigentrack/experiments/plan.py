"""Plan: the cells of an experiment, those that can run at once and those that wait until a pilot has chosen their rates.

A pilot trains the first seed at every learning rate; the other seeds then run only at the rate that its validation chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.ledger import Ledger, SweepOutcome
from eigentrack.experiments.seeds import choose_rates

Sweep = Callable[[Sequence[Cell], Path], SweepOutcome]  # asked again, it does not try again what it has given up


@dataclass(frozen=True)
class Plan:
    cells: list[Cell]
    seeds: tuple[int, ...]
    pilot: bool

    @property
    def first(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.seed == self.seeds[0] or not self.pilot]

    def later(self, results: Sequence[CellResult]) -> list[Cell]:
        """What is left, at the rates that these results of the first cells choose."""
        rates = choose_rates(results, self.seeds[:1]) if self.pilot else {}
        return [cell for cell in self.cells if cell.seed != self.seeds[0] and rates.get((cell.panel, cell.series)) == cell.rate]

    def run(self, folder: Path, sweep: Sweep) -> tuple[list[Cell], SweepOutcome]:
        """The cells that the pilot has left, and what became of them."""
        first = sweep(self.first, folder)
        if not self.pilot:
            return self.cells, first
        others = self.later(first.results)
        cells = self.first + others
        if first.unfinished:  # nothing more is run, but what an earlier call has finished stays in the report
            before = Ledger(others, folder).outcome()
            unfinished = first.unfinished + before.unfinished
            return cells, SweepOutcome(first.results + before.results, first.failures, unfinished)
        return cells, sweep(cells, folder)  # the pilot's again, so that the progress counts them


def run_together(plans: Sequence[Plan], folder: Path, sweep: Sweep) -> int:
    """All plans in two sweeps, so that a device waits for slow cells twice and not twice for each. Each is then finished.

    How many cells an interruption has left over.
    """
    unfinished = sweep(_each_once(cell for plan in plans for cell in plan.first), folder).unfinished
    if unfinished:
        return unfinished
    found = [Ledger(plan.first, folder).outcome().results for plan in plans]
    later = [cell for plan, results in zip(plans, found, strict=True) for cell in plan.later(results)]
    return sweep(_each_once(later), folder).unfinished if later else 0


def _each_once(cells: Iterable[Cell]) -> list[Cell]:
    """Experiments may have cells in common."""
    return list({cell.name: cell for cell in cells}.values())
