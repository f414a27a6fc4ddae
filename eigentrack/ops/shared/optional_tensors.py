"""An operator of torch returns tensors only: an empty one stands for one that is not there."""

from __future__ import annotations

from torch import Tensor


def no_gaps(like: Tensor, tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return tuple(like.new_empty(0) if x is None else x for x in tensors)


def with_gaps(tensors: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    return tuple(x if x.numel() else None for x in tensors)
