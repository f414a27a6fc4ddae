"""Worker: a function in a process of its own. It reports, it may be asked to stop, has a time limit, and dies with the server.

server                          process
Worker(task, …, seconds) ───►   task(line, …)
poll()                   ◄───   line.report(news)
stop()                   ───►   line.is_stopped
answer()                 ◄───   its result, or the one line of its ValueError
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

LOOKS_EVERY = 0.05  # seconds

# a fork server has imported all this already: a worker starts in milliseconds, and shares no thread with the web server
_PRELOADED = (
    "eigentrack.explorer.language_view",
    "eigentrack.explorer.network_view",
    "eigentrack.explorer.twin",
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
    """So that the first worker does not wait for the imports."""
    if _HAS_FORK_SERVER:
        from multiprocessing.forkserver import ensure_running

        ensure_running()


class Line:
    """The process's end: what its function may say and hear."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._stopped = connection, threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def report(self, news: Any) -> None:
        self._connection.send(("news", news))

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def _listen(self) -> None:
        try:
            self._connection.recv()
            self._stopped.set()
            self._connection.recv()
        except (EOFError, OSError):
            os._exit(1)  # the server is gone


class Worker:
    def __init__(self, task: Callable[..., Any], *arguments: Any, seconds: float) -> None:
        self._connection, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_work, args=(theirs, task, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        self._outcome: tuple[str, Any] | None = None

    @property
    def is_running(self) -> bool:
        return self._outcome is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> list[Any]:
        """The news since the last call."""
        news = []
        try:
            while self._outcome is None and self._connection.poll():
                kind, value = self._connection.recv()
                if kind == "news":
                    news.append(value)
                else:
                    self._end(kind, value)
        except (EOFError, OSError):
            self._end("error", "the computation ended without an answer, perhaps for lack of memory")
        if self._outcome is None and time.monotonic() > self._deadline:
            self._end("error", f"given up after {self._seconds:g} seconds: ask for something smaller")
        return news

    def stop(self) -> None:
        """Asks kindly; what the function does then is its own affair."""
        if self._outcome is None:
            self._connection.send("stop")

    def kill(self) -> None:
        self._end("error", "stopped")

    def result(self) -> Any:
        """Once it no longer runs; a ValueError with one line where it failed."""
        assert self._outcome is not None, "still running"
        kind, value = self._outcome
        if kind == "error":
            raise ValueError(value)
        return value

    async def answer(self, hear: Callable[[Any], None] | None = None) -> Any:
        """Waits for the result; `hear` gets the news."""
        while self.is_running:
            for news in self.poll():
                if hear is not None:
                    hear(news)
            await asyncio.sleep(LOOKS_EVERY)
        return self.result()

    def _end(self, kind: str, value: Any) -> None:
        if self._outcome is None:
            self._outcome = kind, value
            self._connection.close()
            self._process.kill()
            self._process.join()


def _work(connection: Connection, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, and with it this process
    torch.set_num_threads(1)
    try:
        outcome = "result", task(Line(connection), *arguments)
    except (ValueError, OSError) as error:
        outcome = "error", str(error)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        outcome = "error", f"internal error, its trace is in the terminal: {type(error).__name__}: {error}"
    connection.send(outcome)
