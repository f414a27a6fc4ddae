"""Diagonal plus low rank: S_t = (diag(g_t) - Σ_j w_tj r_tjᵀ) S_{t-1} + Σ_j w_tj v_tjᵀ,   y_t = S_tᵀ q_t.

All n factors read the state before the token and its gate. RWKV-7, S_t = (diag(g) - (a ⊙ κ) κᵀ) S_{t-1} + k vᵀ, has two:
one that erases, r = κ, w = a ⊙ κ, v = 0, and one that reads nothing and writes, r = 0, w = k.

g has one entry per key channel, or one per head, which stands for all channels.

B batch  T time  H heads  n factors  K key dim  V value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence


@per_sequence
def low_rank(
    q: Float[Tensor, "B T H K"],
    read: Float[Tensor, "B T H n K"],
    write: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "B H K V"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    state, outputs = initial_state, []
    gates = gate if gate.ndim == 4 else gate[..., None]
    for q_t, r_t, w_t, v_t, g_t in zip(*(x.unbind(1) for x in (q, read, write, v, gates)), strict=True):
        stored = torch.einsum("bhnk,bhkv->bhnv", r_t, state)
        state = g_t[..., None] * state + torch.einsum("bhnk,bhnv->bhkv", w_t, v_t - stored)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q_t, state))
    return torch.stack(outputs, dim=1), state
