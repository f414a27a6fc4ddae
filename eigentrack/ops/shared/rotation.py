"""Rotations of pairs of channels, by angles counted in turns: R(turn) = [[cos, -sin], [sin, cos]] of 2π turn.

An angle is a whole number of 2⁻³² turns. Such numbers add up without rounding, in any order and at any length, and only what
a sum leaves beyond whole turns matters. The cosine and sine of quarter turns are exactly 0 and ±1. Gradients pass straight
through the rounding of a turn to such a number. Derivation: docs/derivations/rotation.md.

In a frame that turns with the state, a recurrence with rotations becomes one with real gates only:

    S_t = a_t R(θ_t) S_{t-1} + k_t v_tᵀ,   y_t = S_tᵀ q_t,   Φ_t = θ_1 + ... + θ_t
    S'_t = R(-Φ_t) S_t :   S'_t = a_t S'_{t-1} + (R(-Φ_t) k_t) v_tᵀ,   y_t = S'_tᵀ (R(-Φ_t) q_t),   S_T = R(Φ_T) S'_T

A factor I - b k kᵀ of the delta rule becomes I - b k' k'ᵀ with the turned key k' = R(-Φ_t) k.
So every backend that takes real gates also takes rotations, unchanged.

B batch  T time  H heads  n factors  K key dim  V value dim  P pairs of channels, (0, 1), (2, 3), ...  D channels  N state size
S sequences
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.ops.shared.dispatch import state_dtype
from eigentrack.ops.shared.packing import Packing

_TURN = 2**32
_QUARTER = 2**30


def rotation(turns: Float[Tensor, "*batch P"]) -> tuple[Float[Tensor, "*batch P"], Float[Tensor, "*batch P"]]:
    """Return the cosine and sine of each angle."""
    return _Rotation.apply(turns, None, None)


def running_rotation(
    turns: Float[Tensor, "B T *rest"], packing: Packing | None
) -> tuple[Float[Tensor, "B T *rest"], Float[Tensor, "B T *rest"]]:
    """Return the cosine and sine of the angles summed from the start of each sequence up to each token."""
    return _Rotation.apply(turns, *_spans(turns, packing))


def angles_by_token(turns: Float[Tensor, "B T *rest"] | None) -> Iterator[tuple[Tensor, Tensor] | None]:
    """Return an iterator over the (cosine, sine) of each token; over None without end if `turns` is None."""
    if turns is None:
        return itertools.repeat(None)
    cosine, sine = rotation(turns)
    return zip(cosine.unbind(1), sine.unbind(1), strict=True)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, dim: int = -1) -> Tensor:
    """Return R x, for the pairs of channels along `dim`, which is negative; the angles are broadcast against the pairs."""
    even, odd = x.unflatten(dim, (-1, 2)).unbind(dim)
    return torch.stack([cosine * even - sine * odd, sine * even + cosine * odd], dim).flatten(dim - 1, dim)


def fixed_point(turns: Tensor) -> Int[Tensor, "..."]:
    """Return the angles as whole numbers of 2⁻³² turns; the sum of 2³¹ of them fits into 64 bits."""
    return torch.round((turns - turns.round()) * _TURN).long()


def cosine_and_sine(angle: Int[Tensor, "..."], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine of whole numbers of 2⁻³² turns.

    The nearest quarter turn is applied exactly; only the rest, at most an eighth of a turn, is rounded.
    """
    quarters = (angle + _QUARTER // 2) >> 30
    rest = (angle - quarters * _QUARTER).to(dtype) * (2 * math.pi / _TURN)
    cosine, sine, quarters = rest.cos(), rest.sin(), quarters & 3
    odd, negative_cosine, negative_sine = (quarters & 1) == 1, (quarters == 1) | (quarters == 2), quarters >= 2
    cosine, sine = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    return torch.where(negative_cosine, -cosine, cosine), torch.where(negative_sine, -sine, sine)


class _Rotation(torch.autograd.Function):
    """The cosine and sine of every angle or, given where each token's sequence starts and ends, of their running sum."""

    @staticmethod
    def forward(ctx: Any, turns: Tensor, start: Tensor | None, end: Tensor | None) -> tuple[Tensor, Tensor]:
        angle = fixed_point(turns)
        if start is not None:
            total = torch.nn.functional.pad(angle, (0, 0) * (angle.ndim - 2) + (1, 0)).cumsum(1)
            angle = total[:, 1:] - total.index_select(1, start)
        # NaN and inf must come out as NaN: on the way through the integers they would become some angle
        cosine, sine = (part + 0 * turns for part in cosine_and_sine(angle, turns.dtype))
        ctx.save_for_backward(cosine, sine, end)
        return cosine, sine

    @staticmethod
    def backward(ctx: Any, dcosine: Tensor, dsine: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the angles; with running sums, each angle changes all later sums of its sequence."""
        cosine, sine, end = ctx.saved_tensors
        dangle = 2 * math.pi * (cosine * dsine - sine * dcosine)
        if end is not None:
            before = torch.nn.functional.pad(dangle, (0, 0) * (dangle.ndim - 2) + (1, 0)).cumsum(1)
            dangle = before.index_select(1, end) - before[:, :-1]
        return dangle, None, None


def _spans(turns: Tensor, packing: Packing | None) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
    """Return where each token's sequence starts and ends. The host reads nothing, so that a CUDA graph can be captured."""
    if packing is None:
        start = torch.zeros(turns.shape[1], dtype=torch.int64, device=turns.device)
        return start, torch.full_like(start, turns.shape[1])
    bounds, sequence = packing.bounds.clamp(0, turns.shape[1]), packing.sequence_of_token()
    return bounds[sequence], bounds[sequence + 1]


TensorBackend = Callable[..., tuple[Tensor, Tensor]]  # a Backend whose state is one tensor


@dataclass(frozen=True)
class RotatingFrame:
    """The frame that turns with the state: cosine and sine of Φ_t, [B, T, ...], and of the last Φ_T per sequence, [S, ...]."""

    cosine: Tensor
    sine: Tensor
    last_cosine: Tensor
    last_sine: Tensor

    @staticmethod
    def of(turns: Float[Tensor, "B T *rest"], packing: Packing | None) -> RotatingFrame:
        cosine, sine = running_rotation(turns.to(state_dtype(turns)), packing)
        if packing is None:
            return RotatingFrame(cosine, sine, cosine[:, -1], sine[:, -1])
        last = (packing.bounds[1:] - 1).clamp(0, turns.shape[1] - 1)
        return RotatingFrame(cosine, sine, cosine[0].index_select(0, last), sine[0].index_select(0, last))

    def enter(self, x: Tensor) -> Tensor:
        """Return R(-Φ_t) x_t, in the dtype of x."""
        return rotate(x, self.cosine, -self.sine).to(x.dtype)

    def enter_rows(self, x: Float[Tensor, "B T H n K"]) -> Float[Tensor, "B T H n K"]:
        """Return R(-Φ_t) x_t for each of the n rows per head, in the dtype of x."""
        return rotate(x, self.cosine[..., None, :], -self.sine[..., None, :]).to(x.dtype)

    def leave(self, last: Float[Tensor, "S H K V"]) -> Float[Tensor, "S H K V"]:
        """Return the last state outside of the frame, S_T = R(Φ_T) S'_T."""
        return rotate(last, self.last_cosine[..., None], self.last_sine[..., None], dim=-2)


def delta_rule_in_frame(run: TensorBackend) -> TensorBackend:
    """Return `run`, a backend of delta_rule, with one more argument, `turns`.

    With `turns`, `gate` has one entry per head or per pair, and q, k and v are cast to the precision of the state: in bfloat16
    a turned key would be rounded once more, to other bits at every position of a sequence, and its eigenvalue 1 - b|k|² would
    leave the range that b was made for.
    """

    @functools.wraps(run)
    def rotating(
        q: Float[Tensor, "B T H K"],
        k: Float[Tensor, "B T H n K"],
        v: Float[Tensor, "B T H n V"],
        beta: Float[Tensor, "B T H n"],
        gate: Tensor | None,
        turns: Float[Tensor, "B T H P"] | None = None,
        *,
        packing: Packing | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(q, k, v, beta, gate, packing=packing, **options)
        frame = RotatingFrame.of(turns, packing)
        gate = gate if gate is None or gate.ndim == 3 else gate.repeat_interleave(2, -1)
        asked, dtype = q.dtype, state_dtype(q, k, v, turns)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        y, last = run(frame.enter(q), frame.enter_rows(k), v, beta, gate, packing=packing, **options)
        return y.to(asked), frame.leave(last)

    return rotating


def gated_linear_in_frame(run: TensorBackend) -> TensorBackend:
    """Return `run`, a backend of gated_linear, with one more argument, `turns`; with it, `a` has one entry per head or pair."""

    @functools.wraps(run)
    def rotating(
        q: Float[Tensor, "B T H K"],
        k: Float[Tensor, "B T H K"],
        v: Float[Tensor, "B T H V"],
        a: Tensor,
        turns: Float[Tensor, "B T H P"] | None = None,
        *,
        packing: Packing | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(q, k, v, a, packing=packing, **options)
        frame = RotatingFrame.of(turns, packing)
        a = a if a.ndim == 3 else a.repeat_interleave(2, -1)
        y, last = run(frame.enter(q), frame.enter(k), v, a, packing=packing, **options)
        return y, frame.leave(last)

    return rotating


def selective_scan_in_frame(run: TensorBackend) -> TensorBackend:
    """Return `run`, a backend of selective_scan, with one more argument, `turns`.

    All channels share the angles; with them, `log_decay` has one entry per pair.
    """

    @functools.wraps(run)
    def rotating(
        x: Float[Tensor, "B T D"],
        dt: Float[Tensor, "B T D"],
        b: Float[Tensor, "B T N"],
        c: Float[Tensor, "B T N"],
        z: Float[Tensor, "B T D"] | None,
        turns: Float[Tensor, "B T P"] | None = None,
        *,
        log_decay: Tensor,
        packing: Packing | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(x, dt, b, c, z, log_decay=log_decay, packing=packing, **options)
        frame = RotatingFrame.of(turns, packing)
        log_decay = log_decay.repeat_interleave(2, -1)
        y, last = run(x, dt, frame.enter(b), frame.enter(c), z, log_decay=log_decay, packing=packing, **options)
        return y, rotate(last, frame.last_cosine[:, None], frame.last_sine[:, None])

    return rotating
