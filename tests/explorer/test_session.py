from __future__ import annotations

import asyncio
import os
import time

import pytest

from eigentrack.explorer.session import Computation, Sessions
from eigentrack.processes import Line


def doubled(line: Line, number: int) -> int:
    line.report("half way")
    return 2 * number


def refused(line: Line) -> None:
    raise ValueError("the value 7 is odd: give an even one")


def broken(line: Line) -> None:
    raise KeyError("lost")


def vanishing(line: Line) -> None:
    os._exit(1)


def patient(line: Line) -> str:
    line.report("ready")
    while not line.is_stopped:
        time.sleep(0.01)
    return "stopped kindly"


def stubborn(line: Line) -> None:
    line.report("ready")
    time.sleep(600)


def has_ended(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def wait_until_ready(computation: Computation) -> None:
    while "ready" not in computation.poll():
        time.sleep(0.01)


def test_a_computation_reports_and_answers():
    heard: list[str] = []
    assert asyncio.run(Computation(doubled, 21, seconds=60).answer(heard.append)) == 42
    assert heard == ["half way"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (refused, "^the value 7 is odd: give an even one$"),
        (broken, "internal error.*KeyError"),
        (vanishing, "without an answer"),
    ],
)
def test_what_goes_wrong_in_a_computation_is_one_line_here(task, message):
    with pytest.raises(ValueError, match=message):
        asyncio.run(Computation(task, seconds=60).answer())


def test_a_computation_is_ended_after_its_time():
    computation = Computation(stubborn, seconds=0.2)
    with pytest.raises(ValueError, match=r"given up after 0.2 seconds"):
        asyncio.run(computation.answer())
    assert has_ended(computation.pid)


def test_a_computation_may_be_asked_to_stop():
    computation = Computation(patient, seconds=60)
    wait_until_ready(computation)
    computation.stop()
    assert asyncio.run(computation.answer()) == "stopped kindly"


def test_a_computation_dies_when_the_server_is_gone():
    computation = Computation(stubborn, seconds=60)
    wait_until_ready(computation)
    computation._worker.connection.close()  # what the death of this process would do
    assert has_ended(computation.pid)


def test_a_session_takes_its_computations_and_its_folder_with_it():
    async def closed_while_at_work() -> tuple[int, bool]:
        sessions = Sessions()
        mine, other = sessions.of("a"), sessions.of("b")
        assert sessions.of("a") is mine
        assert mine.folder != other.folder
        work = asyncio.create_task(mine.work(stubborn, seconds=60))
        await asyncio.sleep(0.2)
        pid = mine.computations[0].pid
        sessions.close("a")
        with pytest.raises(ValueError, match="stopped"):
            await work
        kept = other.folder.exists() and not mine.folder.exists()
        sessions.close_all()
        assert not other.folder.exists()
        return pid, kept

    pid, only_mine_went = asyncio.run(closed_while_at_work())
    assert only_mine_went
    assert has_ended(pid)
