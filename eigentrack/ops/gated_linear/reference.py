"""Gated linear attention: S_t = diag(a_t) R(θ_t) S_{t-1} + k_t v_tᵀ,   y_t = S_tᵀ q_t.

a has one entry per key channel (GLA), or one per head, for all channels (Mamba-2, RetNet).
R turns pairs of channels; with it, a has one entry per pair or one per head. Without `turns` R is left out.

B batch  T time  H heads  K key dim  V value dim  P = K/2 pairs
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence
from eigentrack.ops.shared.rotation import angles_by_token, rotate


@per_sequence
def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"],
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "B H K V"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    state, outputs = initial_state, []
    if a.ndim == 3:
        a = a[..., None]
    elif turns is not None:
        a = a.repeat_interleave(2, -1)  # from pairs to channels
    angles = angles_by_token(None if turns is None else turns[..., None])
    for q_t, k_t, v_t, a_t, angle_t in zip(q.unbind(1), k.unbind(1), v.unbind(1), a.unbind(1), angles, strict=False):
        turned = state if angle_t is None else rotate(state, *angle_t, dim=-2)
        state = a_t[..., None] * turned + torch.einsum("bhk,bhv->bhkv", k_t, v_t)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q_t, state))
    return torch.stack(outputs, dim=1), state
