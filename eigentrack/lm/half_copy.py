"""HalfCopy: a model in bfloat16 that computes for one in float32.

The optimiser moves the float32 weights; the copy is their rounding. A gradient of the copy is added to the float32 weight's as
soon as it is there, and forgotten: micro-batches are summed in float32. So it is with FSDP2's mixed precision on many devices.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from eigentrack.models import SequenceModel


class HalfCopy:
    def __init__(self, exact: SequenceModel) -> None:
        self.model = copy.deepcopy(exact).to(torch.bfloat16)
        self._exact: list[Tensor] = list(exact.parameters())
        self._rounded: list[Tensor] = list(self.model.parameters())
        for weight, rounded in zip(exact.parameters(), self.model.parameters(), strict=True):
            rounded.register_post_accumulate_grad_hook(lambda rounded, weight=weight: _hand_over(rounded, weight))

    @torch.no_grad()
    def refresh(self) -> None:
        """After the weights have moved."""
        torch._foreach_copy_(self._rounded, self._exact)


def _hand_over(rounded: Tensor, weight: nn.Parameter) -> None:
    assert rounded.grad is not None
    if weight.grad is None:
        weight.grad = rounded.grad.to(weight.dtype)
    else:
        weight.grad += rounded.grad
    rounded.grad = None
