"""Ledger: which cells of a sweep wait, run, are finished, or have failed. A cell that dies by accident gets one more try."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eigentrack.experiments.cell import Cell, stored_result

TRIES = 2


@dataclass(frozen=True)
class SweepOutcome:
    """Results in the order of the cells; `failures` has the reason by the cell's name."""

    results: tuple[Any, ...]  # of the cells' kind
    failures: dict[str, str]
    unfinished: int  # cells that an interruption has left over


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
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        report: Callable[[SweepProgress], None] = lambda progress: None,
        say: Callable[[str], None] = print,
        given_up: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cells, self.folder, self.report, self.say = cells, folder, report, say
        self.results = {cell.name: result for cell in cells if (result := stored_result(cell, folder / cell.name))}
        self.failures = {cell.name: given_up[cell.name] for cell in cells if cell.name in given_up}
        settled = self.results.keys() | self.failures.keys()
        self.waiting = deque(cell for cell in cells if cell.name not in settled)
        self._tries: dict[str, int] = {}
        self._steps = {cell.name: cell.steps for cell in cells if cell.name in settled}
        self._tell()

    def take(self) -> Cell | None:
        return self.waiting.popleft() if self.waiting else None

    def advanced(self, cell: Cell, step: int) -> None:
        self._steps[cell.name] = step
        self._tell()

    def finished(self, cell: Cell, result: Any) -> None:
        self.results[cell.name] = result
        self.advanced(cell, cell.steps)

    def died(self, cell: Cell, reason: str, *, by_accident: bool = True) -> None:
        """What is no accident, such as a wrong value, would be the same a second time."""
        self._tries[cell.name] = self._tries.get(cell.name, 0) + 1
        if by_accident and self._tries[cell.name] < TRIES:
            self.say(f"{cell.name}: {reason}; it is tried again")
            self.waiting.appendleft(cell)
            return
        self.say(f"{cell.name}: {reason}; given up" + (f" after {TRIES} tries" if by_accident else ""))
        self.failures[cell.name] = reason
        self.advanced(cell, cell.steps)

    def outcome(self) -> SweepOutcome:
        results = tuple(self.results[cell.name] for cell in self.cells if cell.name in self.results)
        return SweepOutcome(results, self.failures, len(self.cells) - len(results) - len(self.failures))

    def _tell(self) -> None:
        total = sum(cell.steps for cell in self.cells)
        self.report(SweepProgress(len(self.results), len(self.cells), sum(self._steps.values()), total))
