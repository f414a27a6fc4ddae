"""Cells in one file: what is finished stays finished, what is under way goes on, and nothing that is there is lost."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.running.cell import RESULT_FILE, Cell, run_cell
from eigentrack.experiments.running.cell_archive import carried_in, pack_cells, unpack_cells
from eigentrack.experiments.running.ledger import Ledger, SweepOutcome, Unlock
from eigentrack.training.checkpoint import checkpoints
from eigentrack.training.driver import RunStopped
from eigentrack.training.run import CHECKPOINTS, METRICS_FILE, MODEL
from tests.experiments.toy import toy_cells


def start(cell, folder: Path) -> None:
    with pytest.raises(RunStopped):
        run_cell(cell, folder / cell.name, "cpu", is_over=lambda: True)


def test_cells_go_on_in_another_folder(tmp_path: Path) -> None:
    done, begun, *_ = cells = toy_cells()
    here, there, archive = tmp_path / "here", tmp_path / "there", tmp_path / "slices/cells.tar.gz"
    whole = run_cell(done, here / done.name, "cpu")
    start(begun, here)
    assert pack_cells(here, archive) == 2
    assert unpack_cells(archive, there) == 2
    assert Ledger(cells, there).outcome().results == (whole,)
    assert not (there / done.name / MODEL).exists()
    steps = (there / begun.name / METRICS_FILE).read_text().splitlines()
    assert len(steps) == 1  # it goes on with the second
    ours, alone = run_cell(begun, there / begun.name, "cpu"), run_cell(begun, tmp_path / "alone", "cpu")
    assert replace(ours, seconds=0.0) == replace(alone, seconds=0.0)


def test_of_two_cells_the_one_that_is_further_stays(tmp_path: Path) -> None:
    first, second, third, _ = toy_cells()
    here, there, archive = tmp_path / "here", tmp_path / "there", tmp_path / "cells.tar.gz"
    start(first, here)
    run_cell(second, here / second.name, "cpu")
    start(third, here)
    start(third, here)  # a step more
    pack_cells(here, archive)
    run_cell(first, there / first.name, "cpu")
    start(second, there)
    start(third, there)
    before = (there / first.name / RESULT_FILE).read_bytes()
    assert unpack_cells(archive, there) == 2
    assert (there / first.name / RESULT_FILE).read_bytes() == before
    assert (there / second.name / RESULT_FILE).read_bytes() == (here / second.name / RESULT_FILE).read_bytes()
    assert len(checkpoints(here / third.name / CHECKPOINTS)) == 2
    assert [path.name for path in checkpoints(there / third.name / CHECKPOINTS)] == ["step-000000002.safetensors"]
    assert unpack_cells(archive, there) == 0


def test_networks_that_are_studied_come_along(tmp_path: Path) -> None:
    (cell, *_), archive = toy_cells(), tmp_path / "cells.tar.gz"
    run_cell(cell, tmp_path / "here" / cell.name, "cpu")
    for whole in (False, True):
        pack_cells(tmp_path / "here", archive, whole=whole)
        unpack_cells(archive, tmp_path / f"there {whole}")
        assert (tmp_path / f"there {whole}" / cell.name / MODEL).exists() == whole


def test_the_archive_is_written_however_a_sweep_ends(tmp_path: Path) -> None:
    (cell, *_), archive = toy_cells(), tmp_path / "cells.tar.gz"

    def breaks(cells: Sequence[Cell], folder: Path, unlock: Unlock = lambda *_: ()) -> SweepOutcome:
        start(cell, folder)
        raise RuntimeError("the power failed")

    with pytest.raises(RuntimeError, match="the power failed"):
        carried_in(archive, breaks, whole=False)([cell], tmp_path / "here")
    assert unpack_cells(archive, tmp_path / "there") == 1


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ValueError, match="text is no archive of cells, or is damaged"):
        unpack_cells(tmp_path / "text", tmp_path / "there")
    (cell, *_) = toy_cells()
    start(cell, tmp_path / "here")
    pack_cells(tmp_path / "here", tmp_path / "cells.tar.gz")
    whole = (tmp_path / "cells.tar.gz").read_bytes()
    # from 200 on: a wrong letter of the file's name in gzip's header harms nobody
    damaged = [whole[:-200], *(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(200, len(whole), 997))]
    for data in damaged:
        (tmp_path / "bad.tar.gz").write_bytes(data)
        with pytest.raises(ValueError, match=r"bad.tar.gz is no archive of cells, or is damaged"):
            unpack_cells(tmp_path / "bad.tar.gz", tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("../out/run.json")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"{}"))
    with pytest.raises(ValueError, match=r"bad.tar.gz is no archive of cells"):
        unpack_cells(tmp_path / "bad.tar.gz", tmp_path / "there")
    assert not (tmp_path / "out").exists()
