"""results/cells.tgz: the cells behind the pages in results/, as today's presets name them, with the numbers on the pages."""

from __future__ import annotations

import dataclasses
import json
import tarfile
from pathlib import Path

import pytest

from eigentrack.experiments.catalogue import named_experiment
from eigentrack.experiments.reproduce import plan_of
from eigentrack.experiments.running.cell import stored_result
from eigentrack.experiments.running.task_cell import CellResult

RESULTS = Path(__file__).resolve().parents[2] / "results"
PUBLISHED = (
    *("arithmetic", "parity", "longer", "figure1", "figure3", "figure6", "deltaproduct", "depth", "stability", "table3"),
    *("ablation", "family", "hybrids", "ladder", "patience", "signed_gates", "tradeoff"),
)
FIELDS = [field.name for field in dataclasses.fields(CellResult)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without the care that `unpack_cells` takes, which has tests of its own and takes ten times as long."""
    unpacked = tmp_path_factory.mktemp("cells")
    with tarfile.open(RESULTS / "cells.tgz") as tar:
        tar.extractall(unpacked, filter="data")
    return unpacked


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_page_shows_its_cells(name: str, folder: Path) -> None:
    page, experiment = json.loads((RESULTS / f"{name}.json").read_text()), named_experiment(name)
    cells = plan_of(experiment, experiment.settings[page["budget"]], (0, 1, 2)).cells
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    assert page["experiment"] == experiment.name == name
    assert page["results"]
    for result in page["results"]:
        cell = by_run[result["panel"], result["series"], result["rate"], result["seed"]]
        stored = stored_result(cell, folder / cell.name)
        assert stored is not None, cell.name
        as_json = json.loads(json.dumps(stored.to_json()))
        assert as_json == {field: result[field] for field in FIELDS}, cell.name
