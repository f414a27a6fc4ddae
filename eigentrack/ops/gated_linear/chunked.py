"""Gated linear attention in chunks: S_t = diag(a_t) S_{t-1} + k_t v_tᵀ,   y_t = S_tᵀ q_t.

Within a chunk that state S enters:  y_i = (Γ_i0 ⊙ q_i)ᵀ S + Σ_{j≤i} (q_iᵀ Γ_ij k_j) v_j  (4),
and leaves:                          S' = Γ_L0 ⊙ S + Σ_j (Γ_Lj ⊙ k_j) v_jᵀ              (5).

R chunks of a group  L tokens per chunk  H heads  K key dim  V value dim. Equations: docs/derivations/gated_linear.md.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.chunk_decay import channel_decay_scores, pairwise_decay
from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import gated_linear_in_frame


@gated_linear_in_frame
def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"],
    packing: Packing | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    floats = q.shape[2] * chunk_size * max(chunk_size, q.shape[3])
    layout = chunk_layout(q, packing, chunk_size, floats_per_chunk=floats)
    carry = Carry(layout, initial_state)
    parts = [*(layout.split(x) for x in (q, k, v)), layout.split(a, fill=1.0)]  # slots without a token keep the state
    outputs = [_run_group(carry, *piece) for piece in zip(layout.groups, *parts, strict=True)]
    return layout.join(outputs), carry.last_state()


def _run_group(
    carry: Carry,
    steps: tuple[int, ...],
    q: Float[Tensor, "R L H K"],
    k: Float[Tensor, "R L H K"],
    v: Float[Tensor, "R L H V"],
    a: Float[Tensor, "R L H"] | Float[Tensor, "R L H K"],
) -> Float[Tensor, "R L H V"]:
    q, k, v, a = (x.transpose(1, 2) for x in (q, k, v, a))  # [R, H, L, ·]
    if a.ndim == 3:
        decay = pairwise_decay(a)
        scores = (q @ k.mT) * decay[..., 1:, 1:]
        from_start, to_end = decay[..., 1:, :1], decay[..., -1, 1:, None]
    else:
        scores, from_start, to_end = channel_decay_scores(q, k, a)
    written = (k * to_end).mT @ v  # [R, H, K, V]
    kept = from_start[..., -1, :, None]  # [R, H, K or 1, 1]

    def advance(state: Tensor, keep: Tensor, write: Tensor, read: Tensor, within: Tensor) -> tuple[Tensor, Tensor]:
        return keep * state + write, read @ state + within

    return carry.run(steps, advance, kept, written, q * from_start, scores @ v).transpose(1, 2)
