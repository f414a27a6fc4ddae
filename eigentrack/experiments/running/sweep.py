"""Run many cells at once on this machine: a few processes take one cell after another and share the device.

A process that is killed takes nothing with it but the steps since its cell's last checkpoint; another takes its place, as it
does for one in which a cell failed by accident: after an error of the GPU nothing works any more in that process. Where the
time is limited, cells stop with a checkpoint.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.running.cell import Cell, run_cell
from eigentrack.experiments.running.ledger import Ledger, in_a_line
from eigentrack.training.driver import OutOfTime

Work = Callable[..., Any]  # as run_cell is called
SECONDS_BETWEEN_REPORTS = 0.5
SECONDS_TO_RETIRE = 20
SECONDS_TO_END = 45  # for the tests of cells that have just been trained


def run_locally(ledger: Ledger, *, jobs: int, device: str, work: Work = run_cell, until: float | None = None) -> None:
    """Runs what waits in the ledger. Interrupted (Ctrl-C), it ends its processes, and all cells can go on later.

    `until`: seconds since the epoch. Then no cell is begun any more, and those that train stop with a checkpoint.
    """
    if until is not None:
        work = partial(work, until=until)

    def is_late(seconds: float = 0.0) -> bool:
        return until is not None and time.time() >= until + seconds

    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    threads = max(1, torch.get_num_threads() // jobs)  # one a core, unless OMP_NUM_THREADS says otherwise
    workers: list[_Worker] = []
    try:
        while (ledger.waiting and not is_late()) or any(worker.cell for worker in workers):
            while ledger.waiting and not is_late() and sum(worker.cell is not None for worker in workers) < jobs:
                idle = next((worker for worker in workers if worker.cell is None), None)
                if idle is None:
                    workers.append(idle := _start(context, ledger.folder, device, threads, work))
                idle.cell = ledger.take()
                with contextlib.suppress(BrokenPipeError):  # it died meanwhile: the wait below will notice
                    idle.connection.send(idle.cell)
            if is_late(SECONDS_TO_END):
                break
            ready = wait([worker.connection for worker in workers if worker.cell], timeout=None if until is None else 1.0)
            for worker in [worker for worker in workers if worker.connection in ready]:
                if not _listen(worker, ledger):
                    workers.remove(worker)
        if is_late() and ledger.outcome().unfinished:
            ledger.say("the time is over: the same command goes on from here")
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    cell: Cell | None = None


@dataclass(frozen=True)
class _Stopped:
    """Its time is over, its checkpoint written."""


@dataclass(frozen=True)
class _Failure:
    reason: str
    by_accident: bool


def _start(context: multiprocessing.context.SpawnContext, folder: Path, device: str, threads: int, work: Work) -> _Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, folder, device, threads, work), daemon=True)
    process.start()
    theirs.close()  # so that its death closes the pipe
    return _Worker(process, ours)


def _listen(worker: _Worker, ledger: Ledger) -> bool:
    """One message of a worker: steps done, words, a result, a failure, the end of its time. False if it is of no more use."""
    assert worker.cell is not None
    try:
        message = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        ledger.died(worker.cell, f"its process ended with exit code {worker.process.exitcode}")
        return False
    if isinstance(message, int):
        ledger.advanced(worker.cell, message)
    elif isinstance(message, str):
        ledger.say(f"{worker.cell.name}: {message}")
    else:
        cell, worker.cell = worker.cell, None
        if isinstance(message, _Stopped):
            return True
        if isinstance(message, _Failure):
            ledger.died(cell, message.reason, by_accident=message.by_accident)
            if message.by_accident:
                _retire(worker)
                return False
        else:
            ledger.finished(cell, message)
    return True


def _retire(worker: _Worker) -> None:
    """An idle one ends by itself when its pipe is closed. One that is killed may take others along that share its GPU."""
    worker.connection.close()
    worker.process.join(SECONDS_TO_RETIRE)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _serve(connection: Connection, folder: Path, device: str, threads: int, work: Work) -> None:
    """In a process of its own: cells come in, results go out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one ends the others
    torch.set_num_threads(threads)
    last_report = 0.0

    def report(step: int) -> None:
        nonlocal last_report
        if time.monotonic() - last_report > SECONDS_BETWEEN_REPORTS:
            last_report = time.monotonic()
            connection.send(step)

    try:
        while True:
            cell: Cell = connection.recv()
            try:
                answer = work(cell, folder / cell.name, device, report, connection.send)
            except BrokenPipeError:
                raise
            except OutOfTime:
                answer = _Stopped()
            except Exception as error:
                answer = _Failure(in_a_line(error), by_accident=not isinstance(error, ValueError))
            connection.send(answer)
    except (EOFError, BrokenPipeError):  # nobody is listening any more
        return
