"""Wrong answers by their offset, for networks that are wrong in a known way."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from eigentrack.experiments import answer_offsets as offsets
from eigentrack.experiments.arithmetic import EXPERIMENT, findings
from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.cell_run import run_cell
from eigentrack.experiments.chomsky import ARITHMETIC
from eigentrack.tasks.modular_arithmetic import ModularArithmetic
from tests.experiments.toy import toy_result


class OffBy(nn.Module):
    """Knows the task's own answers, and adds to each a number of its own."""

    def __init__(self, task: ModularArithmetic, extra: list[int]) -> None:
        super().__init__()
        self.task, self.extra = task, torch.tensor(extra)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
        m = self.task.modulus
        digits, operators = tokens[:, 0:-1:2], tokens[:, 1::2] - m
        values = self.task.prefix_values(digits, operators)[:, -1]
        answers = (values + self.extra.repeat(len(tokens) // len(self.extra))) % m
        logits = torch.zeros(*tokens.shape, self.task.vocab_size)
        logits[..., m:] = 9.0  # no answer at all
        logits[torch.arange(len(tokens)), -1, answers] = 1.0
        return logits, None


@pytest.mark.parametrize("modulus", [5, 7])
def test_offsets_are_counted(modulus: int) -> None:
    task = ModularArithmetic(modulus)
    found = offsets.answer_offsets(OffBy(task, [0, 0, 3, 1]), task, 20, seed=1)  # type: ignore[arg-type]
    quarter = offsets.SEQUENCES // 4
    assert found == tuple({0: 2 * quarter, 1: quarter, 3: quarter}.get(offset, 0) for offset in range(modulus))


def test_networks_that_were_kept_are_studied(tmp_path: Path) -> None:
    settings, said = EXPERIMENT.settings["smoke"], []
    kept, lost = cells = EXPERIMENT.cells(settings, (0,))[:2]
    results = [run_cell(kept, tmp_path / kept.name, "cpu"), run_cell(lost, tmp_path / "elsewhere", "cpu")]
    first, second = offsets.study(results, cells, tmp_path, settings, said.append)  # type: ignore[arg-type]
    assert sum(first.offsets) == offsets.SEQUENCES
    assert (second.offsets, second.scores) == ((), results[1].scores)  # type: ignore[union-attr]
    assert said == [f"{lost.name}: the network was not kept, so nothing is said about its wrong answers"]
    (column,) = [column for column in EXPERIMENT.columns if column.title.startswith("off by")]
    assert column.show([first, second]) == f"{', '.join(map(str, first.offsets[1:]))} at {first.offsets_at}; –"
    assert first.offsets_at == first.trained_to  # an untrained network fails at once


@pytest.mark.parametrize(("right_to", "length"), [(0, 40), (39, 40), (40, 42), (52, 54), (53, 54), (255, 256), (256, 256)])
def test_the_first_length_that_fails(right_to: int, length: int) -> None:
    toy = toy_result()
    result = replace(toy, trained_to=40, scores=replace(toy.scores, right_to=right_to))
    assert offsets.first_failing_length(result, 256) == length


def made_up(counts: tuple[int, ...]) -> offsets.OffsetResult:
    values = {field.name: getattr(toy_result(), field.name) for field in fields(CellResult)}
    return offsets.OffsetResult(**{**values, "panel": ARITHMETIC, "series": "1 factor"}, offsets=counts, offsets_at=90)


@pytest.mark.parametrize(
    ("counts", "pair", "said"),
    [
        ((900, 30, 5, 5, 60), (1, 0.9), "least 50 %. Consistent with a small error of an angle"),
        ((900, 1, 40, 50, 9), (2, 0.9), "off by ±2 in 90%, network by network"),
        ((900, 25, 25, 20, 30), (1, 0.55), "Not in all consistent with"),
    ],
)
def test_neighbouring_offsets_are_found(counts: tuple[int, ...], pair: tuple[int, float], said: str) -> None:
    assert made_up(counts).leading_pair == (pair[0], pytest.approx(pair[1]))
    assert said in " ".join(findings([made_up(counts)]))


def test_few_wrong_answers_say_nothing() -> None:
    assert "Where answers begin" not in " ".join(findings([made_up((1020, 1, 1, 1, 1))]))
