"""Gated linear attention: S_t = diag(a_t) S_{t-1} + k_t v_tᵀ,   y_t = S_tᵀ q_t.

a has one entry per key channel (GLA), or one per head, which stands for all channels (Mamba-2, RetNet).

B batch  T time  H heads  K key dim  V value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.recurrence.reference.per_sequence import per_sequence


@per_sequence
def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "B H K V"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    state, outputs = initial_state, []
    per_channel = a if a.ndim == 4 else a[..., None]
    for q_t, k_t, v_t, a_t in zip(q.unbind(1), k.unbind(1), v.unbind(1), per_channel.unbind(1), strict=True):
        state = a_t[..., None] * state + torch.einsum("bhk,bhv->bhkv", k_t, v_t)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q_t, state))
    return torch.stack(outputs, dim=1), state
