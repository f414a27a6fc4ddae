"""Wrong answers by their offset, for networks that are wrong in a known way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from eigentrack.experiments.studies import arithmetic_measures as offsets
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


@pytest.mark.parametrize(("right_to", "length"), [(0, 40), (39, 40), (40, 42), (52, 54), (53, 54), (255, 256), (256, 256)])
def test_the_first_length_that_fails(right_to: int, length: int) -> None:
    toy = toy_result()
    result = replace(toy, trained_to=40, scores=replace(toy.scores, right_to=right_to))
    assert offsets.first_failing_length(result, 256) == length


@pytest.mark.parametrize(
    ("counts", "pair"), [((900, 30, 5, 5, 60), (1, 0.9)), ((900, 1, 40, 50, 9), (2, 0.9)), ((900, 25, 25, 20, 30), (1, 0.55))]
)
def test_neighbouring_offsets_are_found(counts: tuple[int, ...], pair: tuple[int, float]) -> None:
    assert offsets.leading_pair(counts) == (pair[0], pytest.approx(pair[1]))
