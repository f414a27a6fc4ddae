"""One catalogue of experiments: the command's help and the docs name what is in it, and what is asked for alone is imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.experiments.catalogue import CATALOGUE, LANGUAGE, NAMES, OPEN, named_experiment

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_definition_has_the_name_of_its_entry(name: str) -> None:
    assert named_experiment(name).name == name
    assert CATALOGUE[name].about


def test_the_help_names_every_experiment() -> None:
    words = re.findall(r"\w+", CliRunner().invoke(app, ["reproduce", "--help"]).stdout)
    assert set(NAMES) <= set(words)


def test_the_docs_name_every_experiment() -> None:
    text = (ROOT / "docs" / "how_to" / "reproduce.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", text, flags=re.M))
    assert set(NAMES) <= set(rows)
    assert set(rows) - set(NAMES) == {"smoke", "short", "paper"}  # the budgets
    assert all(rows[name] == CATALOGUE[name].about for name in NAMES if name not in OPEN)  # of questions the docs say more


def modules_after(code: str) -> set[str]:
    """The modules of eigentrack, and torch, that a fresh process has imported once it has run this."""
    code += "\nimport sys\nprint(*(name for name in sys.modules if name.split('.')[0] in ('eigentrack', 'torch')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300, cwd=ROOT)
    return set(run.stdout.split())


def test_the_catalogue_imports_no_torch() -> None:
    modules = modules_after("from eigentrack.experiments.catalogue import CATALOGUE")
    assert "torch" not in modules
    assert not [name for name in modules if name.startswith("eigentrack.experiments.") and not name.endswith(".catalogue")]


def test_experiments_on_tasks_import_no_language_models(tmp_path: Path) -> None:
    """All of them are built; a cell of one is run, and its report is written."""
    code = f"""
from pathlib import Path
from eigentrack.experiments.catalogue import LANGUAGE, NAMES, named_experiment
from eigentrack.experiments.reproduce import reproduce
from eigentrack.experiments.running.cell import run_cell
from eigentrack.experiments.running.ledger import launching

for name in NAMES:
    if name not in LANGUAGE:
        experiment = named_experiment(name)
        experiment.cells(experiment.settings["smoke"], (0,))

def first(ledger):
    cell = ledger.take()
    ledger.finished(cell, run_cell(cell, ledger.folder / cell.name, "cpu", say=lambda text: None))

reproduce(named_experiment("signed_gates"), "smoke", Path({str(tmp_path)!r}), launching(first))
"""
    modules = modules_after(code)
    assert "eigentrack.experiments.reporting.page" in modules
    assert not [name for name in modules if name.startswith(("eigentrack.lm", "eigentrack.experiments.language"))]
    assert (tmp_path / "signed_gates.md").exists()


def test_language_experiments_are_those_that_prepare_a_text() -> None:
    assert {name for name in NAMES if named_experiment(name).prepare is not None} == set(LANGUAGE)
