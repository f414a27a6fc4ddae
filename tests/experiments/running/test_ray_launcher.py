"""The same cells over Ray, on a cluster of this machine alone."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.running import ray_launcher
from eigentrack.experiments.running.cell import Cell, run_cell
from eigentrack.experiments.running.ledger import Ledger
from eigentrack.experiments.running.ray_launcher import run_on_ray
from eigentrack.models import load_model
from tests.experiments.toy import dies_once, fails_at_seed_0, toy_cells


def temporary(cell: Cell, folder: Path) -> Path:
    return ray_launcher._folder(ray_launcher._corner(cell, folder))


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ValueError, match=r"needs Ray: install it with pip install 'eigentrack\[cluster\]'"):
        run_on_ray(Ledger(toy_cells(), tmp_path), jobs=1, device="cpu")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_worker_that_dies_once_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    cells, said = toy_cells(), []
    finished = run_cell(cells[0], tmp_path / "cells" / cells[0].name, "cpu")
    ledger = Ledger(cells, tmp_path / "cells", say=said.append)
    run_on_ray(ledger, jobs=1, device="cpu", work=dies_once)
    outcome = ledger.outcome()
    assert (len(outcome.results), outcome.failures, outcome.unfinished) == (4, {}, 0)
    assert outcome.results[0] == finished
    assert sum("it is tried again" in line for line in said) == 3
    for cell, result in zip(cells[1:], outcome.results[1:], strict=True):
        alone = run_cell(cell, tmp_path / "alone" / cell.name, "cpu")
        assert replace(result, seconds=0.0, hardware="") == replace(alone, seconds=0.0, hardware="")
        assert load_model(tmp_path / "cells" / cell.name / "model").config.d_model == 8
        assert not temporary(cell, tmp_path / "cells").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cell_whose_files_did_not_arrive_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    (cell,), folder = toy_cells()[:1], tmp_path / "cells"

    def dies(*_: object) -> None:
        raise KeyboardInterrupt  # as the process that started the sweep, before it has written a file

    write = ray_launcher._write
    monkeypatch.setattr(ray_launcher, "_write", dies)
    with pytest.raises(KeyboardInterrupt):
        run_on_ray(Ledger([cell], folder, say=lambda text: None), jobs=1, device="cpu")
    monkeypatch.setattr(ray_launcher, "_write", write)
    assert not (folder / cell.name).exists()
    trained = (temporary(cell, folder) / "result.json").read_bytes()  # with its seconds, which no second training repeats
    run_on_ray(Ledger([cell], folder, say=lambda text: None), jobs=1, device="cpu")
    assert (folder / cell.name / "result.json").read_bytes() == trained
    assert not temporary(cell, folder).exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cell_that_fails_twice_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    ledger = Ledger(toy_cells()[:1], tmp_path / "cells", say=lambda text: None)
    run_on_ray(ledger, jobs=1, device="cpu", work=fails_at_seed_0)
    assert list(ledger.outcome().failures.values()) == ["RuntimeError: no luck"]
