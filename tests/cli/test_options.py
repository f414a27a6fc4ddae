"""An eigenvalue range in one word or in several, on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eigentrack.cli import main
from eigentrack.cli.options import join_eigenvalues
from eigentrack.models import ModelConfig, SequenceModel, save_model
from eigentrack.models.storage import load_config
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange, parse_eigenvalues


@pytest.mark.parametrize(
    ("typed", "meant", "left"),
    [
        ("--eigenvalues -1 1 --out 3", EigenRange(-1, 1), ["--out", "3"]),
        ("--eigenvalues -1,1 7", EigenRange(-1, 1), ["7"]),
        ("--eigenvalues=-1,1 7", EigenRange(-1, 1), ["7"]),
        ("--eigenvalues 0 .5 7", EigenRange(0, 0.5), ["7"]),
        ("--eigenvalues disk 7x", EigenDisk(), ["7x"]),
        ("--eigenvalues disk 0.9 7", EigenDisk(0, 0.9), ["7"]),
        ("--eigenvalues annulus 0.5 1 7", EigenDisk(0.5, 1), ["7"]),
        ("--eigenvalues polygon 5 7", EigenPolygon(5), ["7"]),
    ],
)
def test_numbers_of_the_range_are_taken_and_no_others(typed: str, meant: object, left: list[str]) -> None:
    option, *rest = join_eigenvalues(typed.split())
    assert parse_eigenvalues(option.removeprefix("--eigenvalues=")) == meant
    assert rest == left


def test_other_words_stay_as_they_are() -> None:
    for words in ([], ["layers"], ["train", "--eigenvalues"], ["run", "net", "--word", "-1", "1"]):
        assert join_eigenvalues(words) == words


@pytest.mark.parametrize("typed", ["-1 1", "-1,1", "[-1, 1]"])
def test_a_model_is_widened_however_the_range_is_typed(tmp_path: Path, typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(SequenceModel(ModelConfig(vocab_size=5, d_model=8, layers=1, eigenvalues=EigenRange(0, 1))), tmp_path / "narrow")
    words = ["eigentrack", "lm", "convert", "--eigenvalues", *(typed.split(" ") if typed[0] != "[" else [typed])]
    monkeypatch.setattr(sys, "argv", [*words, str(tmp_path / "narrow"), "-o", str(tmp_path / "wide")])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert load_config(tmp_path / "wide").eigenvalues == EigenRange(-1, 1)


@pytest.mark.parametrize("typed", [["-1", "1"], ["-1,1"]])
def test_a_run_is_trained_however_the_range_is_typed(tmp_path: Path, typed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--steps", "1", "--batch", "2", "--d-model", "8", "--lengths", "3,4", "--layer-option", "heads=1"]
    monkeypatch.setattr(
        sys, "argv", ["eigentrack", "train", "--eigenvalues", *typed, *sizes, "--validate-every", "9", "--out", str(tmp_path)]
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert load_config(tmp_path / "model").eigenvalues == EigenRange(-1, 1)
