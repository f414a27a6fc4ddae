"""Session: what one open page owns: a folder, a compiled network, a training, and the computations at work for it.

It ends with the page, and all of that with it; no session sees another's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigentrack.processes import Cause, Done, Failure, News, Worker

if TYPE_CHECKING:
    from eigentrack.compiler import Compiled
    from eigentrack.explorer.twin_training import TwinTraining

NETWORK = "network"
LOOKS_EVERY = 0.05  # seconds

# a fork server has imported all this already: a process starts in milliseconds, and shares no thread with the web server
_PRELOADED = (
    "eigentrack.explorer.language_view",
    "eigentrack.explorer.network_view",
    "eigentrack.explorer.twin_training",
    "eigentrack.explorer.inspection_view",
    "automata.fa.nfa",  # the package imports these three only where it needs them
    "sympy",
    "torch._dynamo",
)
_HAS_FORK_SERVER = "forkserver" in multiprocessing.get_all_start_methods()
_PROCESSES: Any = multiprocessing.get_context("forkserver" if _HAS_FORK_SERVER else "spawn")
if _HAS_FORK_SERVER:
    _PROCESSES.set_forkserver_preload(list(_PRELOADED))


def warm_up() -> None:
    """Start the fork server, so that the first computation does not wait for the imports."""
    if _HAS_FORK_SERVER:
        from multiprocessing.forkserver import ensure_running

        ensure_running()


class Computation:
    """A function in a process of its own, for at most so many seconds; what goes wrong there is one line here."""

    def __init__(self, task: Callable[..., Any], *arguments: Any, seconds: float) -> None:
        self._worker = Worker(context=_PROCESSES)
        self._worker.begin(task, *arguments, seconds=seconds)
        self._outcome: Done | str | None = None  # a text says why there is no result

    @property
    def is_running(self) -> bool:
        return self._outcome is None

    @property
    def pid(self) -> int:
        return self._worker.pid

    def poll(self) -> list[Any]:
        """Return the news since the last call."""
        news = []
        for event in self._worker.poll():
            if isinstance(event, News):
                news.append(event.value)
            else:
                self._outcome = event if isinstance(event, Done) else _reason(event)
                self._worker.kill()
        return news

    def stop(self) -> None:
        """Ask the function to end soon."""
        self._worker.stop()

    def kill(self) -> None:
        self._worker.kill()
        if self._outcome is None:
            self._outcome = "stopped"

    def result(self) -> Any:
        """Return the result once the function no longer runs; a ValueError with one line where it failed."""
        assert self._outcome is not None, "still running"
        if isinstance(self._outcome, str):
            raise ValueError(self._outcome)
        return self._outcome.value

    async def answer(self, hear: Callable[[Any], None] | None = None) -> Any:
        """Wait for the result; `hear` gets the news."""
        while self.is_running:
            for news in self.poll():
                if hear is not None:
                    hear(news)
            await asyncio.sleep(LOOKS_EVERY)
        return self.result()


def _reason(failure: Failure) -> str:
    if failure.cause is Cause.INTERNAL:
        print(failure.trace, file=sys.stderr)
        return f"internal error, its trace is in the terminal: {failure.error}: {failure.message}"
    if failure.cause is Cause.DIED:
        return "the computation ended without an answer, perhaps for lack of memory"
    return f"{failure.message}: ask for something smaller" if failure.cause is Cause.LATE else failure.message


@dataclass
class Session:
    """A session of one page; `network` is the last one compiled, and lies in the folder of that name."""

    home: tempfile.TemporaryDirectory[str] = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="eigentrack-"))
    network: Compiled | None = None
    training: TwinTraining | None = None
    computations: list[Computation] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.home.name)

    async def work(
        self, task: Callable[..., Any], *arguments: Any, seconds: float, hear: Callable[[Any], None] | None = None
    ) -> Any:
        """Return the result of a function in a process that ends with the session."""
        computation = Computation(task, *arguments, seconds=seconds)
        self.computations.append(computation)
        try:
            return await computation.answer(hear)
        finally:
            computation.kill()
            self.computations.remove(computation)

    def close(self) -> None:
        for computation in self.computations:
            computation.kill()
        if self.training is not None:
            self.training.close()
        self.home.cleanup()


class Sessions:
    """All open pages, by the name that the web server gives them."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def of(self, name: str) -> Session:
        if name not in self._open:
            self._open[name] = Session()
        return self._open[name]

    def close(self, name: str) -> None:
        if (session := self._open.pop(name, None)) is not None:
            session.close()

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)
