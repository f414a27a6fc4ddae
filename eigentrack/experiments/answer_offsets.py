"""By how much wrong answers are off, modulo m.

A network that adds modulo m by rotations reads its answer from an angle, 2πk/m a step for some k. Where the angle has a small
error, the state comes after some turns into one of the two sectors beside its own: at first wrong answers are off by j or -j
with kj = ±1, later by anything. So they are counted at the first tested length at which fewer than 90 % are right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Settings
from eigentrack.models import SequenceModel, load_model
from eigentrack.tasks import Task
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.training.run import MODEL, RunConfig

SEQUENCES = 1024


@dataclass(frozen=True)
class OffsetResult(CellResult):
    """`offsets`: how many answers are off by 0, 1, … m-1, at one length; empty where the network was not kept."""

    offsets: tuple[int, ...] = ()
    offsets_at: int = 0  # that length

    @property
    def leading_share(self) -> float:
        """Of the wrong answers, those with the most frequent offset: most of them, if an angle drifts to one side alone."""
        return max(self.offsets[1:]) / max(1, sum(self.offsets[1:]))

    @property
    def leading_pair(self) -> tuple[int, float]:
        """The j for which the most wrong answers are off by j or -j, and their share of the wrong ones."""
        wrong = (0, *self.offsets[1:])
        pairs = {j: sum(wrong[offset] for offset in {j, len(wrong) - j}) for j in range(1, len(wrong) // 2 + 1)}
        best = max(pairs, key=lambda j: pairs[j])
        return best, pairs[best] / max(1, sum(wrong))


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[OffsetResult]:
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    found = []
    for result in results:
        cell = by_run[result.panel, result.series, result.rate, result.seed]
        assert isinstance(cell.run, RunConfig)
        network = folder / cell.name / MODEL
        length = 0
        offsets: tuple[int, ...] = ()
        if network.exists():
            length = first_failing_length(result, settings.test.lengths[1])
            offsets = answer_offsets(load_model(network), cell.run.build_task(), length, cell.seed)
        else:
            say(f"{cell.name}: the network was not kept, so nothing is said about its wrong answers")
        values = {field.name: getattr(result, field.name) for field in dataclasses.fields(CellResult)}
        found.append(OffsetResult(**values, offsets=offsets, offsets_at=length))
    return found


def first_failing_length(result: CellResult, longest: int) -> int:
    """With fewer than 90 % right, and not a trained one; where there is none, the longest. Expressions are of even length."""
    length = min(max(result.scores.right_to + 1, result.trained_to), longest)
    return length - length % 2 if length == longest else length + length % 2


@torch.no_grad()
def answer_offsets(model: SequenceModel, task: Task, length: int, seed: int) -> tuple[int, ...]:
    """Of a task that asks once, at the end."""
    batch = task.sample(SEQUENCES, (length, length), seed=derived_seed(seed, "offsets"), step=0)
    asked = batch.weight > 0
    logits, _ = model.eval()(batch.tokens)
    answers = logits[asked][:, : task.classes].argmax(-1)
    offsets = (answers - batch.targets[asked]) % task.classes
    return tuple(torch.bincount(offsets, minlength=task.classes).tolist())
