"""Cells in one file: what is finished stays finished, what is under way goes on, and nothing that is there is lost."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.cell import RESULT_FILE
from eigentrack.experiments.cell_archive import pack_cells, unpack_cells
from eigentrack.experiments.cell_run import run_cell
from eigentrack.experiments.ledger import Ledger
from eigentrack.training.run import METRICS_FILE, MODEL
from eigentrack.training.time_limit import OutOfTime
from tests.experiments.toy import toy_cells


def start(cell, folder: Path) -> None:
    with pytest.raises(OutOfTime):
        run_cell(cell, folder / cell.name, "cpu", until=0.0)


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


def test_what_is_there_stays_but_for_a_result_in_place_of_a_beginning(tmp_path: Path) -> None:
    first, second, *_ = toy_cells()
    here, there, archive = tmp_path / "here", tmp_path / "there", tmp_path / "cells.tar.gz"
    start(first, here)
    run_cell(second, here / second.name, "cpu")
    pack_cells(here, archive)
    run_cell(first, there / first.name, "cpu")
    start(second, there)
    before = (there / first.name / RESULT_FILE).read_bytes()
    assert unpack_cells(archive, there) == 1
    assert (there / first.name / RESULT_FILE).read_bytes() == before
    assert (there / second.name / RESULT_FILE).read_bytes() == (here / second.name / RESULT_FILE).read_bytes()
    assert unpack_cells(archive, there) == 0


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ValueError, match="text is no archive of cells, or is cut short"):
        unpack_cells(tmp_path / "text", tmp_path / "there")
    (cell, *_) = toy_cells()
    start(cell, tmp_path / "here")
    pack_cells(tmp_path / "here", tmp_path / "cells.tar.gz")
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "cells.tar.gz").read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"cut.tar.gz is no archive of cells, or is cut short"):
        unpack_cells(tmp_path / "cut.tar.gz", tmp_path / "there")


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("../out/run.json")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"{}"))
    with pytest.raises(ValueError, match=r"bad.tar.gz is no archive of cells"):
        unpack_cells(tmp_path / "bad.tar.gz", tmp_path / "there")
    assert not (tmp_path / "out").exists()
