"""Commands in forked processes: all that is imported is there already, so that a run of a command takes milliseconds.

Worker processes of a command are spawned as always. A command gets a session of its own, so that none of its processes is lost
from sight.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.cli import main

SECONDS_AT_MOST = 240.0
SECONDS_TO_VANISH = 10.0


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int  # negative: the signal that killed it
    out: str
    err: str
    seconds: float
    survivors: int  # processes that are still there some seconds later

    @property
    def has_trace(self) -> bool:
        return "Traceback" in self.err or "resource_tracker" in self.err or "Exception ignored" in self.err


class Running:
    """A command at work in `home`."""

    def __init__(
        self, arguments: Sequence[str], home: Path, name: str = "said", prepare: Callable[[], None] = lambda: None
    ) -> None:
        """Start the command.

        Args:
            arguments: its arguments.
            home: the folder in which it runs.
            name: the name of the files that take its output.
            prepare: called in the new process first.
        """
        self._files = home / f".{name}.out", home / f".{name}.err"
        for path in self._files:
            path.write_bytes(b"")
        self._began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be(arguments, home, self._files, prepare)

    def send(self, number: int, to_group: bool) -> None:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if to_group else os.kill)(self.pid, number)

    def has_ended(self) -> bool:
        """Return whether it has ended, without taking note of it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self) -> Ended:
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self.has_ended() and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self.has_ended():
            os.killpg(self.pid, signal.SIGKILL)
        seconds = time.monotonic() - self._began
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        deadline = time.monotonic() + SECONDS_TO_VANISH
        while (left := _session(self.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        out, err = (path.read_text(errors="replace") for path in self._files)
        return Ended(code, out, err, seconds, left)


def run(arguments: Sequence[str], home: Path, name: str = "said", prepare: Callable[[], None] = lambda: None) -> Ended:
    return Running(arguments, home, name, prepare).wait()


def _be(arguments: Sequence[str], home: Path, files: tuple[Path, Path], prepare: Callable[[], None]) -> None:
    code = 70
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # until the command takes over
        os.setsid()
        os.chdir(home)
        for descriptor, path in enumerate(("/dev/null", *map(str, files))):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC if descriptor else os.O_RDONLY)
            os.dup2(opened, descriptor)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115, for as long as the process lives
        sys.argv = ["eigentrack", *arguments]
        prepare()
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _session(leader: int) -> int:
    """Count the processes of a session that are not zombies."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        found += int(fields[3]) == leader and fields[0] != "Z"
    return found
