"""Ledger: which cells of a sweep wait, run, are finished, or have failed. A cell that dies by accident gets one more try."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from eigentrack.experiments.running.cell import Cell, stored_result

log = logging.getLogger(__name__)
TRIES = 2
Unlock = Callable[[Cell, Mapping[str, Any], Mapping[str, str]], Iterable[Cell]]


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of a sweep: results in the order of the cells; `failures` has the reason by the cell's name."""

    results: tuple[Any, ...]  # results of the cells' kind
    failures: dict[str, str]
    unfinished: int  # cells that an interruption has left over


class Sweep(Protocol):
    """Runs cells in a folder, and those that they unlock. Asked again, it does not try again what it has given up."""

    def __call__(self, cells: Sequence[Cell], folder: Path, unlock: Unlock = ...) -> SweepOutcome: ...


@dataclass(frozen=True)
class SweepProgress:
    finished: int
    cells: int
    steps_done: int
    steps: int


def in_a_line(error: BaseException) -> str:
    first_line = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


class Ledger:
    """The launchers take cells from here and say what became of them; finished ones are known from their folders.

    `given_up`: reasons by the name of cells that failed before, and are not tried again.
    `unlock(cell, results, failures)`, both by name: cells that wait for this one, asked when it is finished or given up. They
    take its place in the row, ahead of all that came after it: what is named first is finished first.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        report: Callable[[SweepProgress], None] = lambda progress: None,
        say: Callable[[str], None] = log.info,
        given_up: Mapping[str, str] = MappingProxyType({}),
        unlock: Unlock = lambda cell, results, failures: (),
    ) -> None:
        self.folder, self.report, self.say = folder, report, say
        self.cells: list[Cell] = []
        self.results: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        self.waiting: deque[Cell] = deque()
        self._given_up, self._unlock = given_up, unlock
        self._places: dict[str, int] = {}  # in the row
        self._tries: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._add(cells)
        self._tell()

    def take(self) -> Cell | None:
        return self.waiting.popleft() if self.waiting else None

    def advanced(self, cell: Cell, step: int) -> None:
        self._steps[cell.name] = step
        self._tell()

    def finished(self, cell: Cell, result: Any) -> None:
        self.results[cell.name] = result
        self._add_unlocked(cell)
        self.advanced(cell, cell.steps)

    def died(self, cell: Cell, reason: str, *, by_accident: bool = True) -> None:
        """Put a cell that died by accident back in the row, for one more try; give up one that would fail again."""
        self._tries[cell.name] = self._tries.get(cell.name, 0) + 1
        if by_accident and self._tries[cell.name] < TRIES:
            self.say(f"{cell.name}: {reason}; it is tried again")
            self.waiting.appendleft(cell)
            return
        self.say(f"{cell.name}: {reason}; given up" + (f" after {TRIES} tries" if by_accident else ""))
        self.failures[cell.name] = reason
        self._add_unlocked(cell)
        self.advanced(cell, cell.steps)

    def outcome(self) -> SweepOutcome:
        results = tuple(self.results[cell.name] for cell in self.cells if cell.name in self.results)
        return SweepOutcome(results, self.failures, len(self.cells) - len(results) - len(self.failures))

    def _add_unlocked(self, by: Cell) -> None:
        self._add(self._unlock(by, self.results, self.failures), self._places[by.name])
        self.waiting = deque(sorted(self.waiting, key=lambda cell: self._places[cell.name]))

    def _add(self, cells: Iterable[Cell], place: int | None = None) -> None:
        """Add each new cell once, at this place of the row or at its end.

        A cell that an earlier call has settled counts as done, and unlocks the cells that waited for it.
        """
        known = {cell.name for cell in self.cells}
        new = list({cell.name: cell for cell in cells if cell.name not in known}.values())
        for cell in new:
            self._places[cell.name] = len(self._places) if place is None else place
        self.cells += new
        for cell in new:
            if cell.name in self._given_up:
                self.failures[cell.name] = self._given_up[cell.name]
            elif (result := stored_result(cell, self.folder / cell.name)) is not None:
                self.results[cell.name] = result
            else:
                self.waiting.append(cell)
                continue
            self._steps[cell.name] = cell.steps
        for cell in new:
            if cell.name in self._steps:
                self._add_unlocked(cell)

    def _tell(self) -> None:
        total = sum(cell.steps for cell in self.cells)
        self.report(SweepProgress(len(self.results), len(self.cells), sum(self._steps.values()), total))


def launching(launch: Callable[[Ledger], None], **ledger_options: Callable) -> Sweep:
    """Return a sweep that hands its ledger to a launcher, which may leave cells unfinished."""
    given_up: dict[str, str] = {}

    def sweep(cells: Sequence[Cell], folder: Path, unlock: Unlock = lambda cell, results, failures: ()) -> SweepOutcome:
        ledger = Ledger(cells, folder, given_up=given_up, unlock=unlock, **ledger_options)
        launch(ledger)
        given_up.update(ledger.failures)
        return ledger.outcome()

    return sweep
