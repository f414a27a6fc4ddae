"""Wrong answers by their offset, for networks that are wrong in a known way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from eigentrack.experiments import answer_offsets as offsets
from eigentrack.experiments.arithmetic import EXPERIMENT
from eigentrack.experiments.cell_run import run_cell
from eigentrack.tasks.modular_arithmetic import ModularArithmetic


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
    assert column.show([first, second]) == f"{', '.join(map(str, first.offsets[1:]))}; –"
