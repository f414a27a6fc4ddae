"""Run many cells at once on this machine: a few processes take one cell after another and share the device.

A process that is killed takes nothing with it but the steps since its cell's last checkpoint; another takes its place, as it
does for one in which a cell failed by accident (`eigentrack/processes.py`). Where the time is limited, cells stop with a
checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.running.cell import Cell, run_cell
from eigentrack.experiments.running.ledger import Ledger
from eigentrack.processes import Event, Failure, Line, News, Pool
from eigentrack.training.driver import OutOfTime

Work = Callable[..., Any]  # as run_cell is called
SECONDS_BETWEEN_REPORTS = 0.5
SECONDS_TO_END = 45  # for the tests of cells that have just been trained


def run_locally(ledger: Ledger, *, jobs: int, device: str, work: Work = run_cell, until: float | None = None) -> None:
    """Run what waits in the ledger. Interrupted (Ctrl-C), it ends its processes, and all cells can go on later.

    `until`: seconds since the epoch. Then no cell is begun any more, and those that train stop with a checkpoint.
    """
    if until is not None:
        work = partial(work, until=until)

    def is_late(seconds: float = 0.0) -> bool:
        return until is not None and time.time() >= until + seconds

    threads = max(1, torch.get_num_threads() // jobs)  # one per core, unless OMP_NUM_THREADS says otherwise
    with Pool(jobs, threads=threads) as pool:
        while (ledger.waiting and not is_late()) or pool.is_busy:
            while not is_late() and pool.has_room and (cell := ledger.take()) is not None:
                pool.begin(cell, _work_on, cell, ledger.folder / cell.name, device, work)
            if is_late(SECONDS_TO_END):
                break
            for cell, event in pool.wait(None if until is None else 1.0):
                _note(ledger, cell, event)
        if is_late() and ledger.outcome().unfinished:
            ledger.say("the time is over: the same command goes on from here")


class _Stopped(Enum):
    """The result of a cell whose time is over; its checkpoint is written."""

    OUT_OF_TIME = "out of time"


def _work_on(line: Line, cell: Cell, folder: Path, device: str, work: Work) -> Any:
    """Run a cell in a process of its own, and report steps (numbers) and words."""
    last_report = 0.0

    def report(step: int) -> None:
        nonlocal last_report
        if time.monotonic() - last_report > SECONDS_BETWEEN_REPORTS:
            last_report = time.monotonic()
            line.report(step)

    try:
        return work(cell, folder, device, report, line.report)
    except OutOfTime:
        return _Stopped.OUT_OF_TIME


def _note(ledger: Ledger, cell: Cell, event: Event) -> None:
    if isinstance(event, News):
        if isinstance(event.value, int):
            ledger.advanced(cell, event.value)
        else:
            ledger.say(f"{cell.name}: {event.value}")
    elif isinstance(event, Failure):
        ledger.died(cell, event.line, by_accident=event.is_accident)
    elif event.value is not _Stopped.OUT_OF_TIME:
        ledger.finished(cell, event.value)
