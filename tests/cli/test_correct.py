"""eigentrack correct and train --keep: what is refused, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.compiler.kept_network import verify_kept
from eigentrack.models import ModelConfig, SequenceModel, save_model

runner = CliRunner()


@pytest.fixture
def untrained(tmp_path: Path) -> Path:
    config = ModelConfig(vocab_size=3, d_model=16, layers=1, mixer_options={"heads": 2, "conv": 0})
    save_model(SequenceModel(config), tmp_path / "model")
    return tmp_path / "model"


def test_an_untrained_network_leaves_nothing_behind(untrained: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    given = ["correct", str(untrained), "--task", "parity", "--out", str(kept), "--steps", "5", "--words", "32"]
    found = runner.invoke(app, given)
    assert found.exit_code == 1
    assert "not corrected, and nothing written" in found.output
    assert not [path for path in kept.glob("*") if not path.name.startswith(".")]


@pytest.mark.parametrize(("flag", "value"), [("--every", "0"), ("--steps", "0"), ("--longest", "0.5")])
def test_bad_numbers_are_named(untrained: Path, tmp_path: Path, flag: str, value: str) -> None:
    found = runner.invoke(app, ["correct", str(untrained), "--task", "parity", "--out", str(tmp_path / "kept"), flag, value])
    assert isinstance(found.exception, ValueError)
    assert value in str(found.exception)
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_train_and_keep(tmp_path: Path) -> None:
    given = [
        "train",
        "--task",
        "parity",
        "--layer-option",
        "conv=0",
        "--mlp-width",
        "0",
        "--keep",
        "--out",
        str(tmp_path / "run"),
    ]
    assert runner.invoke(app, given).exit_code == 0
    assert verify_kept(tmp_path / "run" / "kept").holds
