"""Delta rule, n generalized Householder factors a token, gate g before the first:

S ← g_t S;   S ← (I - b_tj k_tj k_tjᵀ) S + b_tj k_tj v_tjᵀ  for j = 1..n;   y_t = S_tᵀ q_t.

g has one entry per key channel, diag(g_t) S (KDA), or one per head, which stands for all channels (gated DeltaNet).

B batch  T time  H heads  n factors  K key dim  V value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.recurrence.reference.per_sequence import per_sequence


@per_sequence
def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | None,
    *,
    initial_state: Float[Tensor, "B H K V"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    state, outputs = initial_state, []
    gate = torch.ones_like(q[..., 0]) if gate is None else gate
    gates = gate if gate.ndim == 4 else gate[..., None]
    for q_t, k_t, v_t, b_t, g_t in zip(q.unbind(1), k.unbind(1), v.unbind(1), beta.unbind(1), gates.unbind(1), strict=True):
        state = g_t[..., None] * state
        for k_j, v_j, b_j in zip(k_t.unbind(2), v_t.unbind(2), b_t.unbind(2), strict=True):
            stored = torch.einsum("bhk,bhkv->bhv", k_j, state)
            state = state + torch.einsum("bh,bhk,bhv->bhkv", b_j, k_j, v_j - stored)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q_t, state))
    return torch.stack(outputs, dim=1), state
