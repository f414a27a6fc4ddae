"""Faults of the commands that write: a signal at a random moment, a full disk at a random place, damaged files, two writers.

After each, nothing is lost and nothing wrong taken for right: the command, given again, ends with the output of an undisturbed
run; a reader of a damaged file refuses it or finds what it finds in a whole one. No trace is printed, and no process is left.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.commands import OUT, WritingCommand
from tests.faults.forked import Ended, Running, run

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
# a negative code: the signal came before the command had begun; a shell makes 143 and 130 of it
CODES = {"SIGKILL": {-9}, "SIGTERM": {143, -15}, "Ctrl-C": {130, -2}}
# of each kind, for every command
COUNTS = {"SIGKILL": 8, "SIGTERM": 7, "Ctrl-C": 6, "full disk": 7, "truncated file": 6, "flipped bit": 6, "two writers": 3}


@dataclass(frozen=True)
class Outcome:
    """A fault and what became of it."""

    command: str
    kind: str
    where: str  # the moment or the place
    code: int
    ended_before: bool  # whether the command was done before the signal came
    trouble: str  # what went wrong; empty if nothing did

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """A writing command with its inputs, its undisturbed output and the seconds that it takes."""

    def __init__(self, command: WritingCommand, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        command.set_up(self.inputs)
        self.whole = self.home("whole")
        ended = run(command.arguments, self.whole, prepare=command.prepare)
        assert ended.code == 0, f"{command.name} fails undisturbed: {ended.err}"
        self.seconds, self.result = ended.seconds, command.result(self.whole)

    def home(self, name: str) -> Path:
        """Return a new folder with the inputs."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.inputs, self.folder / name)
        return self.folder / name

    def go_on(self, home: Path) -> str:
        """Give the command again after a fault; return what is wrong then."""
        ended = run((*self.command.arguments, *self.command.again), home, "again", self.command.prepare)
        if ended.code != 0:
            return f"given again, it ended with {ended.code}: {ended.err.strip()[-300:]}"
        if self.command.result(home) != self.result:
            return "given again, its output is not that of an undisturbed run"
        left = [path.name for path in (home / OUT).rglob("*.tmp")]
        return f"left behind: {', '.join(left)}" if left else ""


def faults_of(command: WritingCommand, folder: Path, seed: int, share: float = 1.0) -> Iterator[Outcome]:
    """Yield the outcome of every fault of a command; a `share` below 1 takes fewer of them."""
    bench, chance = Bench(command, folder), random.Random(f"{seed} {command.name}")
    for kind, count in COUNTS.items():
        tried = max(1, round(share * command.share * count))
        for number in range(tried):
            yield FAULTS[kind](bench, kind, (number + chance.random()) / tried, chance)
    shutil.rmtree(folder)


def _interrupted(bench: Bench, kind: str, share: float, chance: random.Random) -> Outcome:
    """Send the signal after a share of the seconds that the command takes."""
    home, seconds = bench.home("home"), share * bench.seconds
    running = Running(bench.command.arguments, home, prepare=bench.command.prepare)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not running.has_ended():
        time.sleep(0.001)
    ended_before = running.has_ended()
    running.send(SIGNALS[kind], to_group=kind == "Ctrl-C")  # as a terminal does
    ended = running.wait()
    trouble = _trouble(ended, CODES[kind] | {0}) or bench.go_on(home)
    return Outcome(bench.command.name, kind, f"after {seconds:.3f} s", ended.code, ended_before, trouble)


def _full_disk(bench: Bench, kind: str, share: float, chance: random.Random) -> Outcome:
    home = bench.home("home")
    size = sum(path.stat().st_size + 4096 for path in (bench.whole / OUT).rglob("*") if path.is_file())
    pages = max(2, round(share * size / 4096))
    with _small_disk(home / OUT, pages) as grow:
        ended = run(bench.command.arguments, home, prepare=bench.command.prepare)
        trouble = _trouble(ended, {0, 1, 2})
        if ended.code and not trouble and not any(word in ended.err for word in (OUT, "No space", "unfinished")):
            trouble = f"the path is not named: {ended.err.strip()[-300:]}"
        grow()
        trouble = trouble or bench.go_on(home)
    return Outcome(bench.command.name, kind, f"{4 * pages} KiB", ended.code, False, trouble)


@contextmanager
def _small_disk(folder: Path, pages: int) -> Iterator[Callable[[], object]]:
    """Mount a file system of so many pages; yield the function that makes it large."""
    folder.mkdir()
    options = f"size={4 * pages}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=256m", str(folder)], check=True, capture_output=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def _damaged(bench: Bench, kind: str, share: float, chance: random.Random) -> Outcome:
    home = bench.folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(bench.whole, home)
    file = chance.choice([path for path in bench.command.damaged(home) if path.stat().st_size])
    reader = bench.command.reader(home, file)
    sound = run(reader, home, "sound", bench.command.prepare)
    expected = bench.command.reader_result(home, sound.out) if sound.code == 0 else sound.err
    shutil.rmtree(home)
    shutil.copytree(bench.whole, home)
    bench.command.reader(home, file)
    data, place = bytearray(file.read_bytes()), chance.randrange(file.stat().st_size)
    if kind == "flipped bit":
        data[place] ^= 1 << chance.randrange(8)
    file.write_bytes(bytes(data if kind == "flipped bit" else data[:place]))
    ended = run(reader, home, "read", bench.command.prepare)
    trouble = f"undamaged, it is refused: {expected}" if sound.code else _trouble(ended, {0, 1, 2})
    if not trouble and ended.code == 0 and bench.command.reader_result(home, ended.out) != expected:
        trouble = "read as if it were whole, with another outcome"
    return Outcome(bench.command.name, kind, f"{file.relative_to(home)}, byte {place}", ended.code, False, trouble)


def _two_writers(bench: Bench, kind: str, share: float, chance: random.Random) -> Outcome:
    home, seconds = bench.home("home"), share * bench.seconds
    first = Running(bench.command.arguments, home, "first", bench.command.prepare)
    time.sleep(seconds)
    second = Running(bench.command.arguments, home, "second", bench.command.prepare)
    ended = [first.wait(), second.wait()]
    codes = sorted(one.code for one in ended)
    trouble = _trouble(ended[0], {0, 2}) or _trouble(ended[1], {0, 2})
    if not trouble and codes[0] != 0:
        trouble = f"both failed: {ended[0].err.strip()[-200:]} / {ended[1].err.strip()[-200:]}"
    trouble = trouble or ("" if bench.command.result(home) == bench.result else "the output is that of neither")
    return Outcome(bench.command.name, kind, f"{seconds:.3f} s apart", codes[-1], False, trouble)


FAULTS: dict[str, Callable[[Bench, str, float, random.Random], Outcome]] = {
    **dict.fromkeys(SIGNALS, _interrupted),
    "full disk": _full_disk,
    "truncated file": _damaged,
    "flipped bit": _damaged,
    "two writers": _two_writers,
}


def _trouble(ended: Ended, codes: set[int]) -> str:
    if ended.has_trace:
        return f"a trace: {ended.err.strip()[-600:]}"
    if ended.code not in codes:
        return f"it ended with {ended.code}: {ended.err.strip()[-300:]}"
    if ended.code in (2, 130, 143) and not ended.err.strip():
        return f"it ended with {ended.code} and said nothing"
    return f"{ended.survivors} processes are left" if ended.survivors else ""
