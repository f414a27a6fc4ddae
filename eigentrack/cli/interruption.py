"""Ctrl-C and SIGTERM: a command ends in good order, says in one line how to go on, and exits with the code 130 or 143.

A signal raises Interrupted, and what a command has open is closed on the way out. A run that is being trained takes note of the
signal instead, ends its step and writes a checkpoint; a second signal then ends it at once.
"""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
ANEW = "the same command starts anew"
GOES_ON = "the same command goes on"
# torchrun passes a signal on to processes that the terminal has already sent it to
SECONDS_OF_ONE_SIGNAL = 1.0


class Interrupted(BaseException):
    """The end of a command by a signal; not an Exception, so that nobody takes it for an error of the work."""

    def __init__(self, number: int, note: str = ANEW) -> None:
        self.number, self.note = number, note
        super().__init__(f"stopped by {NAMES[signal.Signals(number)]}: {note}")

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class _Noted:
    """The signal of which a run has taken note."""

    def __init__(self) -> None:
        self.listens = False  # whether a run takes note of signals
        self.number: int | None = None
        self.when = 0.0

    def arrive(self, number: int, frame: FrameType | None) -> None:
        if not self.listens or (self.number is not None and time.monotonic() > self.when + SECONDS_OF_ONE_SIGNAL):
            raise Interrupted(number)
        if self.number is None:
            self.number, self.when = number, time.monotonic()
            # not by the console, in the middle of whose work the signal may have come
            os.write(2, f"\n{NAMES[signal.Signals(number)]}: stopping in good order; once more ends it at once\n".encode())


_noted = _Noted()


@contextmanager
def handled() -> Iterator[None]:
    """Raise Interrupted where a signal comes; at the very end of the process a signal ends it without a trace."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
    before = {number: signal.signal(number, _noted.arrive) for number in NAMES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Take note of a signal; yield the function that says whether one has come."""
    _noted.listens, _noted.number = True, None
    try:
        yield lambda: _noted.number is not None
    finally:
        _noted.listens = False


def raise_if_noted(note: str) -> None:
    """Raise Interrupted, with a note on how to go on, if a signal has been noted."""
    if _noted.number is not None:
        raise Interrupted(_noted.number, note)


@contextmanager
def saying(note: str) -> Iterator[None]:
    """Let a command that a signal ends in this block say how to go on."""
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(stopped.number, note) from None


@contextmanager
def resumable(command: str, checkpoints: Path) -> Iterator[Callable[[], bool]]:
    """Let a run end with a checkpoint, and name the command that resumes it; yield whether it should end.

    Args:
        command: the command that resumes the run.
        checkpoints: the folder of its checkpoints, by which is known whether there is something to resume.
    """
    from eigentrack.files import NotWritten
    from eigentrack.training.driver import RunStopped

    try:
        with noted() as is_over:
            yield is_over
    except RunStopped as stopped:
        raise_if_noted(f"{stopped}; `{command}` goes on")
        raise
    except Interrupted as stopped:
        note = f"`{command}` goes on from the last checkpoint" if _exist(checkpoints) else ANEW
        raise Interrupted(stopped.number, note) from None
    except NotWritten as error:
        if _exist(checkpoints):
            raise OSError(f"{error}\nthe checkpoints are kept: with more space `{command}` goes on") from None
        raise


def _exist(checkpoints: Path) -> bool:
    return any(checkpoints.glob("step-*"))
