"""Functions in processes of their own: what they report and raise arrives as values, and none outlives its user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from eigentrack.processes import Cause, Done, Failure, Line, News, Pool, Worker

ROOT = Path(__file__).resolve().parent.parent


def doubled(line: Line, number: int) -> tuple[int, int]:
    line.report("half way")
    return 2 * number, os.getpid()


def threads(line: Line) -> int:
    import torch

    return torch.get_num_threads()


def refused(line: Line) -> None:
    raise ValueError("the value 7 is odd: give an even one\nand more")


def without_space(line: Line) -> None:
    raise OSError("no space left")


def broken(line: Line) -> None:
    raise KeyError("lost")


def without_memory(line: Line) -> None:
    raise MemoryError("Unable to allocate 9 GiB")


def unsendable(line: Line) -> object:
    return lambda: None


def vanishing(line: Line) -> None:
    os._exit(3)


def has_ended(pid: int) -> bool:
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def run_all(pool: Pool, tasks: dict[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    waiting, events = deque(tasks.items()), {name: [] for name in tasks}
    while waiting or pool.is_busy:
        while waiting and pool.has_room:
            name, (task, *arguments) = waiting.popleft()
            pool.begin(name, task, *arguments)
        for name, event in pool.wait():
            events[name].append(event)
    return events


def test_a_pool_reports_answers_and_uses_its_processes_again() -> None:
    with Pool(1) as pool:
        events = run_all(pool, {"a": (doubled, 1), "b": (doubled, 2), "wrong": (refused,), "c": (doubled, 3), "t": (threads,)})
        assert not pool.is_busy
        assert pool.wait() == []
    assert events["a"][0] == News("half way")
    results = [events[name][-1].value for name in "abc"]
    assert [double for double, _ in results] == [2, 4, 6]
    assert len({pid for _, pid in results}) == 1  # a wrong value is no reason for another process
    assert events["t"] == [Done(1)]
    assert has_ended(results[0][1])


def test_what_goes_wrong_is_a_value_and_an_accident_costs_the_process() -> None:
    with Pool(1) as pool:
        tasks = {
            "first": (doubled, 1),
            "refused": (refused,),
            "disk": (without_space,),
            "broken": (broken,),
            "gone": (vanishing,),
        }
        events = run_all(pool, {**tasks, "last": (doubled, 2)})
    wrong, disk, error, gone = (events[name][0] for name in ("refused", "disk", "broken", "gone"))
    assert [failure.cause for failure in (wrong, disk, error, gone)] == list(Cause)[:4]
    assert [failure.is_accident for failure in (wrong, disk, error, gone)] == [False, True, True, True]
    assert wrong.line == "ValueError: the value 7 is odd: give an even one"
    assert gone == Failure(Cause.DIED, "its process ended with exit code 3")
    assert "in broken" in error.trace
    assert [type(failure.as_error()) for failure in (wrong, disk, error, gone)] == [ValueError, OSError, RuntimeError, OSError]
    assert str(disk.as_error()) == "no space left"
    assert events["first"][-1].value[1] != events["last"][-1].value[1]


SCRIPT = """
import os, sys, time
from eigentrack.processes import News, Pool

def stubborn(line):
    line.report(os.getpid())
    time.sleep(600)

if __name__ == "__main__":
    with Pool(2) as pool:
        pool.begin("a", stubborn)
        pool.begin("b", stubborn)
        while True:
            for _, event in pool.wait():
                print(event.value, flush=True)
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_it_serves(tmp_path: Path, by: signal.Signals) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "script.py")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(by)
    process.wait()
    assert all(has_ended(pid) for pid in workers)
    assert process.communicate()[1].count("Traceback") <= 1  # Ctrl-C in this process, never in the others


def test_what_cannot_be_sent_is_a_failure_and_memory_stays_memory() -> None:
    with Pool(1) as pool:
        events = run_all(pool, {"unsendable": (unsendable,), "memory": (without_memory,), "lost": (broken,)})
    (failure,) = events["unsendable"]
    assert isinstance(failure, Failure)
    assert failure.cause is Cause.INTERNAL
    assert "pickle" in failure.message.lower()
    assert isinstance(events["memory"][-1].as_error(), MemoryError)
    error = events["lost"][-1].as_error()
    assert "in broken" in "".join(error.__notes__)


def test_the_time_of_one_function_is_not_that_of_the_next() -> None:
    worker = Worker()
    try:
        for seconds, number in ((20.0, 1), (None, 2)):
            worker.begin(doubled, number, seconds=seconds)
            events: list[Any] = []
            while worker.is_running:
                events += worker.poll()
            assert events[-1].value[0] == 2 * number
        assert worker._deadline == float("inf")
    finally:
        worker.kill()
