"""By how much wrong answers are off, modulo m.

A network that adds modulo m by rotations reads its answer from an angle, 2πk/m a step for some k. Where the angle has a small
error, the state comes after some turns into one of the two sectors beside its own: at first wrong answers are off by j or -j
with kj = ±1, later by anything. So they are counted at the first tested length at which fewer than 90 % are right.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eigentrack.experiments.cell import CellResult
from eigentrack.models import SequenceModel
from eigentrack.tasks import Task
from eigentrack.tasks.counter_random import derived_seed

SEQUENCES = 1024


def first_failing_length(result: CellResult, longest: int) -> int:
    """With fewer than 90 % right, and not a trained one; where there is none, the longest. Expressions are of even length."""
    length = min(max(result.scores.right_to + 1, result.trained_to), longest)
    return length - length % 2 if length == longest else length + length % 2


@torch.no_grad()
def answer_offsets(model: SequenceModel, task: Task, length: int, seed: int) -> tuple[int, ...]:
    """How many answers are off by 0, 1, … m-1. Of a task that asks once, at the end."""
    batch = task.sample(SEQUENCES, (length, length), seed=derived_seed(seed, "offsets"), step=0)
    asked = batch.weight > 0
    logits, _ = model.eval()(batch.tokens)
    answers = logits[asked][:, : task.classes].argmax(-1)
    offsets = (answers - batch.targets[asked]) % task.classes
    return tuple(torch.bincount(offsets, minlength=task.classes).tolist())


def leading_pair(offsets: Sequence[int]) -> tuple[int, float]:
    """The j for which the most wrong answers are off by j or -j, and their share of the wrong ones."""
    wrong = (0, *offsets[1:])
    pairs = {j: sum(wrong[offset] for offset in {j, len(wrong) - j}) for j in range(1, len(wrong) // 2 + 1)}
    best = max(pairs, key=lambda j: pairs[j])
    return best, pairs[best] / max(1, sum(wrong))
