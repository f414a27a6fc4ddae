"""Two beginnings, one continuation: networks that fail in a known way are told apart."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.experiments.questions import ladder
from eigentrack.experiments.studies.ladder import study
from eigentrack.experiments.studies.two_pasts import TwoPasts, two_pasts
from eigentrack.models import SequenceModel, save_model
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task
from eigentrack.training.run import MODEL
from tests.experiments.toy import toy_result


class Counts(nn.Module):
    """Letters of Z3 summed modulo 3, with a mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        numbers = torch.where(tokens < 3, tokens, 0)  # the opening token counts nothing
        sums = numbers.cumsum(1)
        if self.mistake == "forgets":
            sums = sums - F.pad(sums, (50, 0))[:, :-50]
        if self.mistake == "drifts":
            sums = sums + torch.arange(tokens.shape[1]) // 100
        if self.mistake == "holds on to what it should forget":
            sums = sums + (numbers[:, :20] == 1).sum(1, keepdim=True)
        return F.one_hot(sums % 3, 3).float(), None


def z3() -> TrackingTask:
    task = make_task("group", {"name": "Z3"})
    assert isinstance(task, TrackingTask)
    return task


@pytest.mark.parametrize("mistake", ["forgets", "drifts", "holds on to what it should forget"])
def test_a_mistake_is_named(mistake: str) -> None:
    found = two_pasts(Counts(mistake), z3(), 20, 160, seed=1)  # type: ignore[arg-type]
    assert found.fate == mistake
    assert found.right < 0.6


def test_a_network_without_fault_keeps_pasts_apart() -> None:
    assert two_pasts(Counts(""), z3(), 20, 160, seed=1) == TwoPasts(160, told_apart=1.0, mixed_up=0.0, right=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("apart", "right"), [(1.0, 0.995), (None, 0.8)])
def test_shares_that_do_not_tell_have_no_fate(apart: float | None, right: float) -> None:
    assert TwoPasts(160, told_apart=apart, mixed_up=0.0, right=right).fate is None


def test_a_language_of_the_last_letters_has_no_pasts_to_tell_apart() -> None:
    task = make_task("language", {"name": "ends-ab"})
    assert isinstance(task, TrackingTask)
    found = two_pasts(Counts("drifts"), task, 20, 160, seed=1)  # type: ignore[arg-type]
    assert found.told_apart is None
    assert found.mixed_up is not None


def test_the_ladder_looks_at_networks_that_fit_and_fail(tmp_path: Path) -> None:
    cells = [cell for cell in ladder.EXPERIMENT.cells(ladder.EXPERIMENT.settings["smoke"], (0, 1)) if cell.panel == "Z3"][:2]
    save_model(SequenceModel(cells[0].run.build_model_config()), tmp_path / cells[0].name / MODEL)

    def result(number: int, validated: float) -> object:
        toy = toy_result(cells[number].series, seed=cells[number].seed, score=0.5)
        toy = dataclasses.replace(toy, panel="Z3", rate=cells[number].rate, validation_accuracy=validated, trained_to=6)
        return dataclasses.replace(toy, scores=dataclasses.replace(toy.scores, horizon=20))

    said: list[str] = []
    settings = ladder.EXPERIMENT.settings["smoke"]
    found = study([result(0, 1.0), result(1, 1.0), result(0, 0.5)], cells, tmp_path, settings, said.append)  # type: ignore[list-item]
    assert [each.pasts is None for each in found] == [False, True, True]
    assert found[0].pasts is not None
    assert found[0].pasts.length == 36
    assert len(said) == 1
    assert "was not kept" in said[0]
    text = ladder.COMPARISON.table(found)
    assert f"**{found[0].pasts.fate}**: after 36 letters" in text
    last = ladder.COMPARISON.findings(found)[-1]
    assert last.startswith("2 networks fit the training lengths and fail beyond. Of the 1 that were kept and looked at, 1 ")
