"""A rotating recurrence as a real one: in a frame that turns with the state, only the real gates are left.

    S_t = a_t R(θ_t) S_{t-1} + k_t v_tᵀ,   y_t = S_tᵀ q_t,   Φ_t = θ_1 + ... + θ_t
    S'_t = R(-Φ_t) S_t :   S'_t = a_t S'_{t-1} + (R(-Φ_t) k_t) v_tᵀ,   y_t = S'_tᵀ (R(-Φ_t) q_t),   S_T = R(Φ_T) S'_T

A factor I - b k kᵀ of the delta rule becomes I - b k' k'ᵀ with the turned key k' = R(-Φ_t) k.
Every backend that takes real gates takes rotations so, unchanged. docs/derivations/rotation.md derives it.

B batch  T time  H heads  n factors  K key dim  V value dim  P = K/2 or N/2 pairs  D channels  N state size  S sequences
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.dispatch import state_dtype
from eigentrack.ops.shared.packing import sequence_lengths
from eigentrack.ops.shared.rotation import rotate, running_rotation

TensorBackend = Callable[..., tuple[Tensor, Tensor]]  # a Backend whose state is one tensor


@dataclass(frozen=True)
class RotatingFrame:
    """The cosine and sine of Φ, [B, T, ...], and of Φ_T of every sequence, [S, ...]."""

    cosine: Tensor
    sine: Tensor
    last_cosine: Tensor
    last_sine: Tensor

    @staticmethod
    def of(turns: Float[Tensor, "B T *rest"], cu_seqlens: Tensor | None) -> RotatingFrame:
        cosine, sine = running_rotation(turns.to(state_dtype(turns)), cu_seqlens)
        if cu_seqlens is None:
            sequence_lengths(turns.shape[0], turns.shape[1], None)  # without a token there is no last angle
            return RotatingFrame(cosine, sine, cosine[:, -1], sine[:, -1])
        last = (cu_seqlens.to(turns.device)[1:] - 1).clamp(0, turns.shape[1] - 1)  # wrong bounds are named by the backend
        return RotatingFrame(cosine, sine, cosine[0].index_select(0, last), sine[0].index_select(0, last))

    def enter(self, x: Tensor) -> Tensor:
        """R(-Φ_t) x_t, in the dtype of x."""
        return rotate(x, self.cosine, -self.sine).to(x.dtype)

    def enter_rows(self, x: Float[Tensor, "B T H n K"]) -> Float[Tensor, "B T H n K"]:
        """The same for the n rows of every head."""
        return rotate(x, self.cosine[..., None, :], -self.sine[..., None, :]).to(x.dtype)

    def leave(self, last: Float[Tensor, "S H K V"]) -> Float[Tensor, "S H K V"]:
        """R(Φ_T) S'_T."""
        return rotate(last, self.last_cosine[..., None], self.last_sine[..., None], dim=-2)


def delta_rule_in_frame(run: TensorBackend) -> TensorBackend:
    """Gives delta_rule `turns`; with them, `gate` has one entry a head or one a pair.

    All is in the state's precision then. A turned key in bfloat16 would be rounded once more, at every place of a sequence to
    other bits, and its eigenvalue 1 - b|k|² would leave the range that b was made for.
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
        cu_seqlens: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(q, k, v, beta, gate, cu_seqlens=cu_seqlens, **options)
        frame = RotatingFrame.of(turns, cu_seqlens)
        gate = gate if gate is None or gate.ndim == 3 else gate.repeat_interleave(2, -1)
        asked, dtype = q.dtype, state_dtype(q, k, v, turns)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        y, last = run(frame.enter(q), frame.enter_rows(k), v, beta, gate, cu_seqlens=cu_seqlens, **options)
        return y.to(asked), frame.leave(last)

    return rotating


def gated_linear_in_frame(run: TensorBackend) -> TensorBackend:
    """Gives gated_linear `turns`; with them, `a` has one entry a head or one a pair."""

    @functools.wraps(run)
    def rotating(
        q: Float[Tensor, "B T H K"],
        k: Float[Tensor, "B T H K"],
        v: Float[Tensor, "B T H V"],
        a: Tensor,
        turns: Float[Tensor, "B T H P"] | None = None,
        *,
        cu_seqlens: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(q, k, v, a, cu_seqlens=cu_seqlens, **options)
        frame = RotatingFrame.of(turns, cu_seqlens)
        a = a if a.ndim == 3 else a.repeat_interleave(2, -1)
        y, last = run(frame.enter(q), frame.enter(k), v, a, cu_seqlens=cu_seqlens, **options)
        return y, frame.leave(last)

    return rotating


def selective_scan_in_frame(run: TensorBackend) -> TensorBackend:
    """Gives selective_scan `turns`, which all channels share; with them, `log_decay` has one entry a pair."""

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
        cu_seqlens: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        if turns is None:
            return run(x, dt, b, c, z, log_decay=log_decay, cu_seqlens=cu_seqlens, **options)
        frame = RotatingFrame.of(turns, cu_seqlens)
        log_decay = log_decay.repeat_interleave(2, -1)
        y, last = run(x, dt, frame.enter(b), frame.enter(c), z, log_decay=log_decay, cu_seqlens=cu_seqlens, **options)
        return y, rotate(last, frame.last_cosine[:, None], frame.last_sine[:, None])

    return rotating
