"""Rotations of pairs of channels, by angles counted in turns: R(turn) = [[cos, -sin], [sin, cos]] of 2π turn.

An angle is a whole number of 2⁻³² turns. Such numbers add up without rounding, in every order and at every length, and of a
sum only what is left of whole turns matters. The cosine and sine of a quarter turn are exactly 0 and ±1. Gradients pass
straight through the rounding of a turn to such a number. docs/derivations/rotation.md derives what is built on it.

P pairs of channels, (0, 1), (2, 3), ...
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

_TURN = 2**32
_QUARTER = 2**30


def rotation(turns: Float[Tensor, "*batch P"]) -> tuple[Float[Tensor, "*batch P"], Float[Tensor, "*batch P"]]:
    """The cosine and sine of each angle."""
    return _Rotation.apply(turns, None, None)


def running_rotation(
    turns: Float[Tensor, "B T *rest"], cu_seqlens: Tensor | None
) -> tuple[Float[Tensor, "B T *rest"], Float[Tensor, "B T *rest"]]:
    """The cosine and sine of the angles summed from the start of each sequence."""
    return _Rotation.apply(turns, *_spans(turns, cu_seqlens))


def angles_by_token(turns: Float[Tensor, "B T *rest"] | None) -> Iterator[tuple[Tensor, Tensor] | None]:
    """The cosine and sine of each token in turn; None for ever where nothing turns."""
    if turns is None:
        return itertools.repeat(None)
    cosine, sine = rotation(turns)
    return zip(cosine.unbind(1), sine.unbind(1), strict=True)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, dim: int = -1) -> Tensor:
    """R x for the pairs of channels along `dim`, counted from the end; angles are broadcast against them."""
    even, odd = x.unflatten(dim, (-1, 2)).unbind(dim)
    return torch.stack([cosine * even - sine * odd, sine * even + cosine * odd], dim).flatten(dim - 1, dim)


def fixed_point(turns: Tensor) -> Int[Tensor, "..."]:
    """Whole numbers of 2⁻³² turns; the sum of 2³¹ of them fits."""
    return torch.round((turns - turns.round()) * _TURN).long()


def cosine_and_sine(angle: Int[Tensor, "..."], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Of a whole number of 2⁻³² turns: the nearest quarter turn exactly, and up to an eighth of a turn from there."""
    quarters = (angle + _QUARTER // 2) >> 30
    rest = (angle - quarters * _QUARTER).to(dtype) * (2 * math.pi / _TURN)
    cosine, sine, quarters = rest.cos(), rest.sin(), quarters & 3
    odd, negative_cosine, negative_sine = (quarters & 1) == 1, (quarters == 1) | (quarters == 2), quarters >= 2
    cosine, sine = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    return torch.where(negative_cosine, -cosine, cosine), torch.where(negative_sine, -sine, sine)


class _Rotation(torch.autograd.Function):
    """(cos, sin) of every angle, or, given where each token's sequence starts and ends, of the running sum over time."""

    @staticmethod
    def forward(ctx: Any, turns: Tensor, start: Tensor | None, end: Tensor | None) -> tuple[Tensor, Tensor]:
        angle = fixed_point(turns)
        if start is not None:
            total = torch.nn.functional.pad(angle, (0, 0) * (angle.ndim - 2) + (1, 0)).cumsum(1)
            angle = total[:, 1:] - total.index_select(1, start)
        # what is no number must not become some angle on its way through the integers
        cosine, sine = (part + 0 * turns for part in cosine_and_sine(angle, turns.dtype))
        ctx.save_for_backward(cosine, sine, end)
        return cosine, sine

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dcosine: Tensor, dsine: Tensor) -> tuple[Tensor, None, None]:
        """An angle moves all later sums of its sequence."""
        cosine, sine, end = ctx.saved_tensors
        dangle = 2 * math.pi * (cosine * dsine - sine * dcosine)
        if end is not None:
            before = torch.nn.functional.pad(dangle, (0, 0) * (dangle.ndim - 2) + (1, 0)).cumsum(1)
            dangle = before.index_select(1, end) - before[:, :-1]
        return dangle, None, None


def _spans(turns: Tensor, cu_seqlens: Tensor | None) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """For every token, where its sequence starts and ends. Nothing is read on the host: a CUDA graph can hold it.

    Wrong bounds are named by the backend that runs next; here they only must not point outside."""
    time = torch.arange(turns.shape[1], device=turns.device)
    if cu_seqlens is None:
        return torch.zeros_like(time), torch.full_like(time, turns.shape[1])
    bounds = cu_seqlens.to(time).clamp(0, len(time))
    sequence = torch.searchsorted(bounds, time, right=True).clamp_max(len(bounds) - 1)
    return bounds[sequence - 1], bounds[sequence]
