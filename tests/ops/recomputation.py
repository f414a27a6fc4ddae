"""What an op must give under activation checkpointing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def assert_recomputation_changes_nothing(op: Callable[..., tuple[Tensor, ...]], leaves: list[Tensor]) -> None:
    """The forward pass runs twice, what it keeps is handed over once, and every bit of every gradient is the same."""

    def loss(*given: Tensor) -> Tensor:
        return sum((x.float().sin().sum() for x in op(*given)), torch.zeros((), device=leaves[0].device))

    expected = torch.autograd.grad(loss(*leaves), leaves)
    found = torch.autograd.grad(checkpoint(loss, *leaves, use_reentrant=False), leaves)
    assert all(torch.equal(ours, plain) for ours, plain in zip(found, expected, strict=True))
