"""Functions that run in other processes: a Worker is one such process, a Pool is several of them that share the cores.

    here                                  there
    worker.begin(task, …, seconds=60) ──► task(line, …)
    worker.poll()  → News             ◄── line.report(value)
    worker.stop()                     ──► line.is_stopped
    worker.poll()  → Done or Failure  ◄── what the function returns or raises

A worker process is spawned, as CUDA does not survive a fork. It runs one function after another, and ends when this process
ends, for whatever reason. An error in it is returned as a Failure, not raised. Ctrl-C reaches all processes of a terminal, and
SIGTERM often a whole group: workers ignore both, so that this process can end them.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

SECONDS_TO_RETIRE = 20.0  # how long an idle process may take to end by itself
STOP = b"stop"  # the message that asks a function to end


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Cause(Enum):
    """The reason why a function has no result."""

    REFUSED = "it raised a ValueError: a wrong value, which would be wrong a second time"
    SYSTEM = "it raised an OSError, such as a full disk"
    INTERNAL = "it raised another error"
    DIED = "its process ended, for lack of memory perhaps"
    LATE = "its time was over"


@dataclass(frozen=True)
class News:
    """A value that a function reports while it runs."""

    value: Any


@dataclass(frozen=True)
class Done:
    """The value that a function has returned."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """The reason why a function has returned no value."""

    cause: Cause
    message: str
    error: str = ""  # the name of the error's class; empty if no error was raised
    trace: str = ""  # the traceback of the error

    @property
    def line(self) -> str:
        """The error's class and the first line of its message."""
        return ": ".join(part for part in (self.error, self.message.strip().split("\n")[0]) if part)

    @property
    def is_accident(self) -> bool:
        """Whether a second attempt may succeed."""
        return self.cause is not Cause.REFUSED

    def as_error(self) -> Exception:
        """Return an error of the same kind as the one that was raised, with its message."""
        if self.error == "MemoryError":
            return MemoryError(self.message)
        if self.cause is Cause.INTERNAL:
            error = RuntimeError(self.line)
            error.add_note(self.trace)
            return error
        return ValueError(self.message) if self.cause is Cause.REFUSED else OSError(self.message)


Event = News | Done | Failure


class Line:
    """The worker process's end of the connection, through which its function sends reports and learns that it should stop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stopped, self._is_busy = threading.Event(), False
        self._tasks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def report(self, value: Any) -> None:
        """Send a value to the other process, where `Worker.poll` returns it as News."""
        self._connection.send(News(value))

    @property
    def is_stopped(self) -> bool:
        """Whether the function was asked to end soon; the function decides what to do then."""
        return self._stopped.is_set()

    def serve(self) -> None:
        """Run one function after another until the connection is closed."""
        threading.Thread(target=self._listen, daemon=True).start()
        while (given := self._tasks.get()) is not None:
            try:
                task, arguments = pickle.loads(given)
                answer: Done | Failure = Done(task(self, *arguments))
            except Exception as error:
                answer = _failure(error)
            with suppress(BrokenPipeError):  # the other process is gone
                self._answer(answer)

    def _answer(self, answer: Done | Failure) -> None:
        self._is_busy = False
        try:
            self._connection.send(answer)
        except OSError:
            raise
        except Exception as error:  # a result that cannot be sent
            self._connection.send(_failure(error))

    def _listen(self) -> None:
        try:
            while True:
                message = self._connection.recv_bytes()
                if message == STOP:
                    self._stopped.set()
                else:
                    self._stopped.clear()
                    self._is_busy = True
                    self._tasks.put(message)
        except (EOFError, OSError):  # the other process has ended, or has closed the connection
            if self._is_busy:
                os._exit(1)
            self._tasks.put(None)


def _failure(error: Exception) -> Failure:
    refused, system = isinstance(error, ValueError), isinstance(error, OSError)
    cause = Cause.REFUSED if refused else Cause.SYSTEM if system else Cause.INTERNAL
    return Failure(cause, str(error), type(error).__name__, "".join(traceback.format_exception(error)))


def _serve(connection: Connection, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # torch reads this if a function imports it later
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    Line(connection).serve()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back, here until the block ends, and for ever in processes that are started in it.

    A terminal sends Ctrl-C to all of its processes, and a worker would print a trace if it came while it is starting.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would start in the block otherwise, and let the signals through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker:
    """A process that runs one function at a time and is idle in between."""

    def __init__(self, *, threads: int = 1, context: Any = None) -> None:
        """Start the process.

        Args:
            threads: the number of threads of torch in it.
            context: the multiprocessing context that starts it; None: `spawn`.
        """
        context = context or multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        with _signals_held_back():
            self._process.start()
        theirs.close()  # so that the connection closes when the process ends
        self.is_running = False
        self._seconds = self._deadline = float("inf")

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, task: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> None:
        """Start `task(line, *arguments)` in the process; it is killed after `seconds`, None: never."""
        assert not self.is_running, "it runs another function"
        self.is_running = True
        self._seconds = float("inf") if seconds is None else seconds
        self._deadline = time.monotonic() + self._seconds
        with suppress(BrokenPipeError):  # the process has died: `poll` will report it
            self.connection.send((task, arguments))

    def poll(self) -> list[Event]:
        """Return the events since the last call; a Done or a Failure is the last event of a function."""
        events: list[Event] = []
        while self.is_running and (event := self._next()) is not None:
            self.is_running = isinstance(event, News)
            events.append(event)
        return events

    def stop(self) -> None:
        """Ask the function to end soon, by setting its `line.is_stopped`."""
        if self.is_running:
            with suppress(BrokenPipeError):
                self.connection.send_bytes(STOP)

    def kill(self) -> None:
        """End the process at once."""
        self.is_running = False
        self.connection.close()
        self._process.kill()
        self._process.join()

    def retire(self) -> None:
        """Let an idle process end by itself, and kill it only if it does not: a kill may disturb others that share its GPU."""
        self.connection.close()
        self._process.join(SECONDS_TO_RETIRE)
        self.kill()

    def _next(self) -> Event | None:
        try:
            if self.connection.poll():
                event: Event = self.connection.recv()
                return event
        except (EOFError, OSError):
            self._process.join()
            return Failure(Cause.DIED, f"its process ended with exit code {self._process.exitcode}")
        if time.monotonic() > self._deadline:
            self.kill()
            return Failure(Cause.LATE, f"given up after {self._seconds:g} seconds")
        return None


class Pool:
    """A pool of workers that take tasks as they come.

    Args:
        jobs: the largest number of workers; None: one per core.
        threads: the number of threads of torch in each worker.

    with Pool(4) as pool:
        while waiting or pool.is_busy:
            while waiting and pool.has_room:
                pool.begin(name := waiting.popleft(), task, name)
            for name, event in pool.wait():
                …                                    # may append to `waiting`

    All processes are killed when the block ends, also by an error or Ctrl-C.
    """

    def __init__(self, jobs: int | None = None, *, threads: int = 1) -> None:
        self._jobs, self._threads = cores() if jobs is None else jobs, threads
        self._idle: list[Worker] = []
        self._running: list[tuple[Any, Worker]] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in [*self._idle, *(worker for _, worker in self._running)]:
            worker.kill()
        self._idle, self._running = [], []

    @property
    def has_room(self) -> bool:
        """Whether another task can begin now."""
        return len(self._running) < self._jobs

    @property
    def is_busy(self) -> bool:
        """Whether a task is running."""
        return bool(self._running)

    def begin(self, name: Any, task: Callable[..., Any], *arguments: Any) -> None:
        """Start `task(line, *arguments)` in an idle process or in a new one; `wait` returns its events with `name`."""
        assert self.has_room, "all processes are at work"
        worker = self._idle.pop() if self._idle else Worker(threads=self._threads)
        worker.begin(task, *arguments)
        self._running.append((name, worker))

    def stop(self) -> None:
        """Ask the functions that are running to end soon."""
        for _, worker in self._running:
            worker.stop()

    def wait(self, seconds: float | None = None) -> list[tuple[Any, Event]]:
        """Wait for events, at most `seconds` (None: without a limit), and return each with the name of its task.

        After a Failure that is an accident the process is not used again: after a GPU error, nothing works in it any more.
        """
        if not self._running:
            return []
        wait([worker.connection for _, worker in self._running], seconds)
        found: list[tuple[Any, Event]] = []
        for name, worker in list(self._running):
            for event in worker.poll():
                found.append((name, event))
                if not isinstance(event, News):
                    self._take_back(worker, event)
        return found

    def _take_back(self, worker: Worker, event: Done | Failure) -> None:
        self._running = [(name, other) for name, other in self._running if other is not worker]
        if isinstance(event, Failure) and event.is_accident:
            worker.retire()
        else:
            self._idle.append(worker)
