"""Accuracy by length: a causal model's answer after token t is its answer on the sequence of length t.

B sequences  T time
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.models import SequenceModel
from eigentrack.tasks import Parity


@torch.no_grad()
def accuracy_by_length(
    model: SequenceModel, task: Parity, longest: int, *, sequences: int, seed: int, piece: int = 256
) -> Float[Tensor, " longest"]:
    """The share of right answers at every length 1..longest; streamed, so memory does not grow with length."""
    device = next(model.parameters()).device
    model.eval()
    right, state, parity = [], None, torch.zeros(sequences, 1, dtype=torch.int64, device=device)
    for step, start in enumerate(range(0, longest, piece)):
        time = min(piece, longest - start)
        batch = task.sample(sequences, (time, time), seed=seed, step=step, device=device)
        logits, state = model(batch.tokens, state)
        targets = (batch.targets + parity) % task.classes
        parity = targets[:, -1:]
        answers = logits[..., : task.classes].argmax(-1)  # padding is no answer
        right.append((answers == targets).float().mean(0))
    return torch.cat(right)


def scaled_accuracy(accuracy: Tensor, classes: int) -> Tensor:
    """0 for guessing, 1 for always right."""
    chance = 1 / classes
    return (accuracy - chance) / (1 - chance)


def horizon(accuracy: Float[Tensor, " longest"], threshold: float = 0.99) -> int:
    """The longest length up to which accuracy stays at or above the threshold; 0 if it never does."""
    below = torch.nonzero(accuracy < threshold)
    return int(below[0]) if len(below) else len(accuracy)
