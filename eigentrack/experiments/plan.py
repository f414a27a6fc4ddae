"""Plan: the cells of an experiment, those that can run at once and those that wait until a pilot has chosen their rates.

A pilot trains the first seed at every learning rate; the other seeds then run only at the rate that its validation chose, each
panel and series as soon as its own pilot is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.ledger import Ledger, SweepOutcome, Unlock
from eigentrack.experiments.seeds import choose_rates


class Sweep(Protocol):
    """Runs cells in a folder, and those that they unlock. Asked again, it does not try again what it has given up."""

    def __call__(self, cells: Sequence[Cell], folder: Path, unlock: Unlock = ...) -> SweepOutcome: ...


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

    def unlocked_by(self, cell: Cell, results: Mapping[str, CellResult], failures: Mapping[str, str]) -> list[Cell]:
        """The cells of this panel and series at the rate that the pilot has chosen, once it has no rate left to try."""
        if not self.pilot or cell.seed != self.seeds[0]:
            return []
        tried = [other for other in self.first if (other.panel, other.series) == (cell.panel, cell.series)]
        if any(other.name not in results and other.name not in failures for other in tried):
            return []
        return self.later([results[other.name] for other in tried if other.name in results])

    def run(self, folder: Path, sweep: Sweep) -> tuple[list[Cell], SweepOutcome]:
        """The cells that the pilot has left, and what became of them."""
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
    """Of a cell, or of its result, in its plan."""
    return x.panel, x.series, x.rate, x.seed


def run_together(plans: Sequence[Plan], folder: Path, sweep: Sweep) -> int:
    """All plans in one sweep, so that a device waits for slow cells once and not once for each. Each is then finished.

    How many cells an interruption has left over.
    """

    def unlock(cell: Cell, results: Mapping[str, CellResult], failures: Mapping[str, str]) -> list[Cell]:
        return [more for plan in plans if cell in plan.first for more in plan.unlocked_by(cell, results, failures)]

    return sweep([cell for plan in plans for cell in plan.first], folder, unlock).unfinished
