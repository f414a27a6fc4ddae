"""Parity: after each bit, is the number of ones so far odd? The simplest task that needs state-tracking.

B sequences  T time
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.tasks.batch import Batch
from eigentrack.tasks.counter_random import random_integers

PADDING = 2


@dataclass(frozen=True)
class Parity:
    """`last_weight` of the loss falls on the last bit alone, the rest on all prefixes alike."""

    last_weight: float = 0.5
    vocab_size: int = 3  # 0, 1, padding
    classes: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.last_weight <= 1:
            raise ValueError(f"last_weight={self.last_weight} must lie between 0 and 1")

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int, device: torch.device | str = "cpu"
    ) -> Batch:
        """Sequences of random lengths between the two (inclusive), padded on the right."""
        low, high = lengths
        if not 1 <= low <= high:
            raise ValueError(f"lengths={lengths} must be 1 ≤ shortest ≤ longest")
        length = low + random_integers(high - low + 1, (batch, 1), seed=seed, step=step, stream=0, device=device)
        bits = random_integers(2, (batch, high), seed=seed, step=step, stream=1, device=device)
        position = torch.arange(high, device=device)
        is_token, is_last = position < length, position == length - 1
        weight = (1 - self.last_weight) * is_token / length + self.last_weight * is_last
        tokens = torch.where(is_token, bits, PADDING)
        return Batch(tokens, self.answers(bits), weight)

    def answers(self, bits: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        return bits.cumsum(1) % 2
