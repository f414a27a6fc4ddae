"""Batch: what a task hands to training. B sequences  T time"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]  # the answer after each token
    weight: Float[Tensor, "B T"]  # of each position in the loss; 0 on padding
