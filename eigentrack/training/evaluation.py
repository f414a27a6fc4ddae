"""Accuracy by length. A causal model's answer after token t is its answer on the sequence of length t.

B sequences  T time
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.layers.validation import require_positive
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import in_evaluation_mode
from eigentrack.tasks import Task, TrackingTask
from eigentrack.tasks.counter_random import derived_seed


@dataclass(frozen=True)
class LengthCurve:
    """At every length 1..longest: the share of right answers, and of sequences with every answer right so far."""

    accuracy: Float[Tensor, " longest"]
    sequence_accuracy: Float[Tensor, " longest"]


@torch.no_grad()
@in_evaluation_mode
def length_curve(
    model: SequenceModel, task: TrackingTask, longest: int, *, sequences: int, seed: int, piece: int = 256
) -> LengthCurve:
    """Streamed with the model's state: length 10⁶ needs no more memory than length 10³, but for attention's cache."""
    require_positive(sequences=sequences)
    device = next(model.parameters()).device
    state, unbroken = None, torch.ones(sequences, 1, dtype=torch.bool, device=device)
    right_share, unbroken_share = [], []
    for tokens, targets in task.stream(sequences, longest, piece=piece, seed=derived_seed(seed, "test"), device=device):
        logits, state = model(tokens, state)
        right = logits[..., : task.classes].argmax(-1) == targets  # padding is no answer
        all_right = (unbroken & (right.cumsum(1) == torch.arange(1, right.shape[1] + 1, device=device))).float()
        unbroken = all_right[:, -1:].bool()
        right_share.append(right.float().mean(0).cpu())
        unbroken_share.append(all_right.mean(0).cpu())
    first = int(task.begin_token)  # the answer after the begin token belongs to length 0
    return LengthCurve(torch.cat(right_share)[first:], torch.cat(unbroken_share)[first:])


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers at the positions that the loss asks for, and of sequences with all of them right."""

    answers: float
    sequences: float


@torch.no_grad()
@in_evaluation_mode
def accuracy_between(
    model: SequenceModel, task: Task, lengths: tuple[int, int], *, sequences: int, seed: int, purpose: str = "test"
) -> Accuracy:
    """On sequences of these lengths, at most 65,536 tokens at a time."""
    require_positive(sequences=sequences)
    device = next(model.parameters()).device
    batch = max(1, min(sequences, 2**16 // lengths[1]))
    right = unbroken = 0.0
    for step in range(-(-sequences // batch)):
        count = min(batch, sequences - step * batch)
        sample = task.sample(count, lengths, seed=derived_seed(seed, purpose), step=step, device=device)
        logits, _ = model(sample.tokens)
        is_right = logits[..., : task.classes].argmax(-1) == sample.targets
        right += float((is_right * sample.weight).sum())
        unbroken += float((is_right | (sample.weight == 0)).all(1).sum())
    return Accuracy(right / sequences, unbroken / sequences)


def scaled_accuracy(accuracy: Tensor, classes: int) -> Tensor:
    """0 for guessing, 1 for always right."""
    chance = 1 / classes
    return (accuracy - chance) / (1 - chance)


def shortest_asked(task: Task, trained: tuple[int, int]) -> int:
    """The shortest length with an answer that the loss asks for: 1, unless it asks for the last one of a sequence alone."""
    return trained[0] if isinstance(task, TrackingTask) and task.last_weight == 1 else 1


def horizon(accuracy: Float[Tensor, " longest"], threshold: float = 0.99, *, shortest: int = 1) -> int:
    """From `shortest` on, the longest length up to which accuracy stays at or above the threshold; 0 if it never does."""
    first = min(shortest, len(accuracy)) - 1
    below = torch.nonzero(accuracy[first:] < threshold)
    if not len(below):
        return len(accuracy)
    return first + int(below[0]) if below[0] else 0
