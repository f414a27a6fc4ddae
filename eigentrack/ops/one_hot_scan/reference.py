"""One-hot scan: h_t = P_t (d_t ⊙ h_{t-1}) + b_t, where each column of P_t has a single 1; every h_t is returned.

Column j of P_t has its 1 in row rows_t[j]: entry j of the state is scaled by d_t[j] and added to entry rows_t[j].
Without angles, d = a. With them, every entry is a pair of numbers, and d = a R(θ) scales and turns it.

B batch  T time  H heads  N entries of the state  M numbers of the state: N, or 2N for pairs
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence
from eigentrack.ops.shared.rotation import angles_by_token, rotate


@per_sequence
def one_hot_scan(
    a: Float[Tensor, "B T H N"],
    b: Float[Tensor, "B T H M"] | None,
    rows: Int[Tensor, "B T H N"],
    turns: Float[Tensor, "B T H N"] | None = None,
    *,
    initial_state: Float[Tensor, "B H M"],
) -> tuple[Float[Tensor, "B T H M"], Float[Tensor, "B H M"]]:
    state, states = initial_state, []
    entries = a.shape[-1]
    row = torch.arange(entries, device=a.device)[:, None]
    inputs: Sequence[Tensor | float] = [0.0] * a.shape[1] if b is None else b.unbind(1)
    for a_t, b_t, rows_t, angle in zip(a.unbind(1), inputs, rows.unbind(1), angles_by_token(turns), strict=False):
        p_t = (row == rows_t[..., None, :]).to(a.dtype)  # [B, H, N, N]
        turned = state if angle is None else rotate(state, *angle)
        scaled = a_t[..., None] * turned.unflatten(-1, (entries, -1))
        state = torch.einsum("bhij,bhjc->bhic", p_t, scaled).flatten(-2) + b_t
        states.append(state)
    return torch.stack(states, dim=1), state
