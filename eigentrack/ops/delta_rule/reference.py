"""Delta rule: n generalized Householder factors per token, with a gate g before the first one:

S ← g_t R(θ_t) S;   S ← (I - b_tj k_tj k_tjᵀ) S + b_tj k_tj v_tjᵀ  for j = 1..n;   y_t = S_tᵀ q_t.

g has one entry per key channel, diag(g_t) S (KDA), or one per head, for all channels (gated DeltaNet).
R turns pairs of channels; with it, g has one entry per pair or one per head. Without `turns` R is left out.

B batch  T time  H heads  n factors  K key dim  V value dim  P = K/2 pairs
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence
from eigentrack.ops.shared.rotation import angles_by_token, rotate


@per_sequence
def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"] | None,
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "B H K V"],
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "B H K V"]]:
    state, outputs = initial_state, []
    gate = torch.ones_like(q[..., 0]) if gate is None else gate
    if gate.ndim == 3:
        gate = gate[..., None]
    elif turns is not None:
        gate = gate.repeat_interleave(2, -1)  # from pairs to channels
    angles = angles_by_token(None if turns is None else turns[..., None])
    tokens = zip(q.unbind(1), k.unbind(1), v.unbind(1), beta.unbind(1), gate.unbind(1), angles, strict=False)
    for q_t, k_t, v_t, b_t, g_t, angle_t in tokens:
        turned = state if angle_t is None else rotate(state, angle_t[0], angle_t[1], dim=-2)
        state = g_t[..., None] * turned
        for k_j, v_j, b_j in zip(k_t.unbind(2), v_t.unbind(2), b_t.unbind(2), strict=True):
            stored = torch.einsum("bhk,bhkv->bhv", k_j, state)
            state = state + torch.einsum("bh,bhk,bhv->bhkv", b_j, k_j, v_j - stored)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q_t, state))
    return torch.stack(outputs, dim=1), state
