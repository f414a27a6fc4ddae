"""Run many cells at once on this machine: a few processes take one cell after another and share the device.

A process that is killed takes nothing with it but the steps since its cell's last checkpoint; another takes its place, as it
does for one in which a cell failed by accident (`eigentrack/processes.py`). Once the time is over, cells stop with a
checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.running.cell import Cell, run_cell
from eigentrack.experiments.running.ledger import Ledger
from eigentrack.processes import Event, Failure, Line, News, Pool
from eigentrack.training.driver import RunStopped

Work = Callable[..., Any]  # as run_cell is called
SECONDS_BETWEEN_REPORTS = 0.5
SECONDS_BETWEEN_LOOKS = 1.0  # at whether the time is over
SECONDS_TO_END = 45  # for the tests of cells that have just been trained


def run_locally(
    ledger: Ledger, *, jobs: int, device: str, work: Work = run_cell, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Run what waits in the ledger; all cells that are not finished can go on later.

    Args:
        ledger: the cells.
        jobs: how many cells run at a time.
        device: where they run.
        work: how one cell is run.
        is_over: asked every second; once it is true, no cell is begun any more, and those that train stop with a checkpoint.
    """
    threads = max(1, torch.get_num_threads() // jobs)  # one per core, unless OMP_NUM_THREADS says otherwise
    ended: float | None = None  # when it was over, by the monotonic clock
    with Pool(jobs, threads=threads) as pool:
        while (ledger.waiting and ended is None) or pool.is_busy:
            if ended is None and is_over():
                ended = time.monotonic()
                pool.stop()
            if ended is not None and time.monotonic() > ended + SECONDS_TO_END:
                break
            while ended is None and pool.has_room and (cell := ledger.take()) is not None:
                pool.begin(cell, _work_on, cell, ledger.folder / cell.name, device, work)
            for cell, event in pool.wait(SECONDS_BETWEEN_LOOKS):
                _note(ledger, cell, event)
        if ended is not None and ledger.outcome().unfinished:
            ledger.say("the time is over: the same command goes on from here")


class _Stopped(Enum):
    """The result of a cell that was told to stop; its checkpoint is written."""

    EARLY = "stopped early"


def _work_on(line: Line, cell: Cell, folder: Path, device: str, work: Work) -> Any:
    """Run a cell in a process of its own, and report steps (numbers) and words."""
    last_report = 0.0

    def report(step: int) -> None:
        nonlocal last_report
        if time.monotonic() - last_report > SECONDS_BETWEEN_REPORTS:
            last_report = time.monotonic()
            line.report(step)

    try:
        return work(cell, folder, device, report, line.report, lambda: line.is_stopped)
    except RunStopped:
        return _Stopped.EARLY


def _note(ledger: Ledger, cell: Cell, event: Event) -> None:
    if isinstance(event, News):
        if isinstance(event.value, int):
            ledger.advanced(cell, event.value)
        else:
            ledger.say(f"{cell.name}: {event.value}")
    elif isinstance(event, Failure):
        ledger.died(cell, event.line, by_accident=event.is_accident)
    elif event.value is not _Stopped.EARLY:
        ledger.finished(cell, event.value)
