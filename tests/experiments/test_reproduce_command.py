"""`eigentrack reproduce` as a user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.experiments.running.ledger import Ledger

ROOT = Path(__file__).resolve().parent.parent.parent


def test_it_explains_itself_with_an_example() -> None:
    result = CliRunner().invoke(app, ["reproduce", "--help"])
    assert result.exit_code == 0
    assert "Example: eigentrack reproduce figure1" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure9"], "experiment 'figure9' is not known; there are figure1, figure2, figure3, figure5, figure6, table3"),
        (["figure1", "--budget", "huge"], "budget 'huge' is not known; there are smoke, short, paper"),
        (["figure1", "--launcher", "slurm"], "--launcher slurm is not known; there are local, ray"),
        (["figure4", "--launcher", "ray"], "--launcher ray shares no disk, and the cells of figure4 share a corpus"),
        (["figure4", "--data", "books"], "--data books= must be LABEL=PATH of a file or folder"),
        (["figure1", "--data", "train=README.md"], "figure1 makes its own data: leave out --data"),
        (["figure1", "figure6", "--json"], "figure1, figure6 together: --json, --data and language models take one name alone"),
        (["figure4", "figure1"], "figure4, figure1 together: --json, --data and language models take one name alone"),
        (["figure1", "--jobs", "0"], "--jobs 0 must be at least 1"),
        (["figure1", "--minutes", "0"], "--minutes 0 must be above 0, and goes with --launcher local"),
        (["figure1", "--archive", "README.md"], "README.md is no archive of cells, or is damaged"),
        (["figure4", "--archive", "cells.tar.gz"], "--archive carries no language models: leave it out for figure4"),
        (["figure1", "--seeds", "a"], "--seeds 'a' must be whole numbers, such as 0,1,2"),
        (["figure1", "--device", "cuda:77"], "--device cuda:77: torch finds no such device on this machine"),
        (["figure1", "--out", "README.md"], "--out README.md is a file: name a folder"),
        (["figure1", "--out", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    where = [] if "--out" in arguments else ["--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["reproduce", *arguments, *where])
    assert isinstance(result.exception, (ValueError, OSError))  # which main() turns into one line and exit code 2
    assert message in str(result.exception)
    assert not list(tmp_path.glob("cells"))


def test_an_unknown_name_is_one_line_and_exit_code_two() -> None:
    command = [sys.executable, "-W", "error", "-m", "eigentrack", "reproduce", "figure9"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)
    assert result.returncode == 2
    assert result.stderr.startswith("error: experiment 'figure9' is not known; there are figure1, figure2")
    assert len(result.stderr.splitlines()) == 1


def test_failed_cells_are_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gives_up(ledger: Ledger, **options: object) -> None:
        while (cell := ledger.take()) is not None:
            ledger.died(cell, "gone")

    monkeypatch.setattr("eigentrack.experiments.running.sweep.run_locally", gives_up)
    result = CliRunner().invoke(app, ["reproduce", "figure6", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "14 failed, 0 unfinished; the same command goes on" in result.stderr
    assert "it is tried again" in caplog.text
    assert "`z60/Z60_1_token_an_element/DeltaNet_0_1_1_block/rate-0.001-seed-0`: gone" in (tmp_path / "figure6.md").read_text()


def test_several_names_are_reported_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[int] = []

    def gives_up(ledger: Ledger, **options: object) -> None:
        swept.append(len(ledger.waiting))
        while (cell := ledger.take()) is not None:
            ledger.died(cell, "gone")

    monkeypatch.setattr("eigentrack.experiments.running.sweep.run_locally", gives_up)
    result = CliRunner().invoke(app, ["reproduce", "figure6", "signed_gates", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert [count for count in swept if count] == [14 + 30]  # together, and what had failed not again
    assert "44 failed, 0 unfinished" in result.stderr
    assert {path.name for path in tmp_path.glob("*.md")} == {"figure6.md", "signed_gates.md"}
