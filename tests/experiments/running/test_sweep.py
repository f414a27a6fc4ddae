"""Many cells at once: what dies is tried again, what is finished is never lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.running.cell import RESULT_FILE, Cell, run_cell
from eigentrack.experiments.running.ledger import Ledger, SweepProgress
from eigentrack.experiments.running.sweep import run_locally
from tests.experiments.toy import (
    SETTINGS,
    breaks_its_process_once,
    dies_once,
    fails_at_seed_0,
    has_no_time,
    refuses,
    toy_cells,
)

ROOT = Path(__file__).resolve().parents[3]


def test_a_killed_process_is_replaced_and_its_cell_goes_on(tmp_path: Path) -> None:
    (cell, *_), said, seen = toy_cells(), [], []
    ledger = Ledger([cell], tmp_path / "sweep", report=seen.append, say=said.append)
    run_locally(ledger, jobs=2, device="cpu", work=dies_once)
    outcome = ledger.outcome()
    assert (len(outcome.results), outcome.failures, outcome.unfinished) == (1, {}, 0)
    assert said == [f"{cell.name}: its process ended with exit code -9; it is tried again"]
    assert seen[-1] == SweepProgress(1, 1, 12, 12)
    alone = run_cell(cell, tmp_path / "alone", "cpu")
    assert replace(outcome.results[0], seconds=0.0) == replace(alone, seconds=0.0)


def test_a_cell_that_fails_twice_is_named_and_the_others_finish(tmp_path: Path) -> None:
    cells, said = [cell for cell in toy_cells(seeds=(0, 1)) if cell.rate == 1e-2], []
    ledger = Ledger(cells, tmp_path, say=said.append)
    run_locally(ledger, jobs=1, device="cpu", work=fails_at_seed_0)
    outcome = ledger.outcome()
    broken = [cell.name for cell in cells if cell.seed == 0]
    assert outcome.failures == dict.fromkeys(broken, "RuntimeError: no luck")
    assert [result.seed for result in outcome.results] == [1, 1]
    assert [(tmp_path / name / ".tries").read_text() for name in broken] == ["xx", "xx"]
    assert said[0] == f"{broken[0]}: RuntimeError: no luck; it is tried again"
    assert said[1] == f"{broken[0]}: RuntimeError: no luck; given up after 2 tries"


def test_a_process_in_which_a_cell_failed_is_replaced(tmp_path: Path) -> None:
    cells, said = [cell for cell in toy_cells(seeds=(0, 1)) if cell.rate == 1e-2], []
    ledger = Ledger(cells, tmp_path, say=said.append)
    run_locally(ledger, jobs=1, device="cpu", work=breaks_its_process_once)
    outcome = ledger.outcome()
    assert (len(outcome.results), outcome.failures) == (len(cells), {})
    assert [line.partition(": ")[0] for line in said] == [cell.name for cell in cells if cell.seed == 0]


def test_a_wrong_value_is_not_tried_again(tmp_path: Path) -> None:
    (cell, *_), said = toy_cells(), []
    ledger = Ledger([cell], tmp_path, say=said.append)
    run_locally(ledger, jobs=1, device="cpu", work=refuses)
    assert ledger.outcome().failures == {cell.name: "ValueError: text.txt is not there"}
    assert (tmp_path / cell.name / ".tries").read_text() == "x"
    assert said == [f"{cell.name}: ValueError: text.txt is not there; given up"]


def test_when_the_time_is_over_cells_stop_and_go_on_another_time(tmp_path: Path) -> None:
    cells, said = toy_cells()[:3], []
    ledger = Ledger(cells, tmp_path, say=said.append)
    run_locally(ledger, jobs=1, device="cpu", is_over=lambda: True)
    assert (len(ledger.outcome().results), ledger.outcome().unfinished) == (0, 3)
    assert said == ["the time is over: the same command goes on from here"]
    assert not list(tmp_path.iterdir())  # nothing was begun

    ledger = Ledger(cells, tmp_path, say=said.append)
    run_locally(ledger, jobs=1, device="cpu", work=has_no_time)
    assert ledger.outcome().failures == {}
    assert ledger.outcome().unfinished == 3
    ledger = Ledger(cells[:1], tmp_path)
    run_locally(ledger, jobs=1, device="cpu")
    alone = run_cell(cells[0], tmp_path / "alone", "cpu")
    assert replace(ledger.outcome().results[0], seconds=0.0) == replace(alone, seconds=0.0)


SCRIPT = """
import sys
from pathlib import Path
from eigentrack.experiments.running.ledger import launching
from eigentrack.experiments.running.sweep import run_locally
from tests.experiments.running.test_sweep import three_cells

if __name__ == "__main__":
    sweep = launching(lambda ledger: run_locally(ledger, jobs=1, device="cpu"))
    print(sweep(three_cells(), Path(sys.argv[1])).unfinished, "unfinished")
"""


def three_cells() -> list[Cell]:
    """Each takes longer than the half second after which a worker notices that nobody listens any more."""
    training = replace(SETTINGS.training, steps=300)
    return toy_cells(replace(SETTINGS, training=training, validate_every=300, checkpoint_every=25))[:3]


def interrupt_a_sweep(folder: Path, how: signal.Signals) -> str:
    """Stops it once a cell is finished and another has a checkpoint; returns what it printed."""
    script = folder / "sweep.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, script, folder / "cells"], env=environment, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (finished_in(folder) and started_in(folder) - finished_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(how)
    return process.communicate(timeout=60)[0]


def finished_in(folder: Path) -> set[Path]:
    return {path.parent for path in _files_below(folder / "cells") if path.name == RESULT_FILE}


def started_in(folder: Path) -> set[Path]:
    return {path.parent.parent for path in _files_below(folder / "cells") if path.match("step-*.safetensors")}


def _files_below(folder: Path) -> list[Path]:
    """While a sweep runs, folders vanish under the eyes of whoever looks: os.walk passes over them, glob fails."""
    return [Path(root) / name for root, _, names in os.walk(folder) for name in names]


def assert_goes_on(folder: Path) -> None:
    """Nothing finished is run again; the cell that was cut goes on from its checkpoint, the others start."""
    finished, cut = finished_in(folder), started_in(folder) - finished_in(folder)
    assert len(finished) in (1, 2)
    assert len(cut) == 1
    written = {path: (path / RESULT_FILE).stat().st_mtime_ns for path in finished}
    ledger = Ledger(three_cells(), folder / "cells")
    assert {ledger.folder / name for name in ledger.results} == finished
    while (cell := ledger.take()) is not None:
        steps: list[int] = []
        ledger.finished(cell, run_cell(cell, ledger.folder / cell.name, "cpu", steps.append))
        assert (steps[:1] != [1]) == (ledger.folder / cell.name in cut)
    assert len(ledger.outcome().results) == 3
    assert {path: (path / RESULT_FILE).stat().st_mtime_ns for path in finished} == written


def test_a_sweep_killed_in_the_middle_goes_on(tmp_path: Path) -> None:
    interrupt_a_sweep(tmp_path, signal.SIGKILL)
    time.sleep(1)  # its worker notices that nobody listens
    assert_goes_on(tmp_path)


@pytest.mark.slow
def test_control_c_leaves_everything_to_go_on(tmp_path: Path) -> None:
    said = interrupt_a_sweep(tmp_path, signal.SIGINT)
    assert "unfinished" not in said  # KeyboardInterrupt goes on to whoever called the sweep
    assert_goes_on(tmp_path)
