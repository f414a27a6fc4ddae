"""LSTM, non-linear: gates read the previous output h through R, one block per head.

(z̃, ĩ, f̃, õ)_t = W x_t + R h_{t-1};   c_t = σ(f̃) c_{t-1} + σ(ĩ) tanh z̃,   h_t = σ(õ) tanh c_t.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence

LSTMState = tuple[Float[Tensor, "B H D"], Float[Tensor, "B H D"]]


@per_sequence
def lstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: LSTMState,
) -> tuple[Float[Tensor, "B T H D"], LSTMState]:
    c, h = initial_state
    outputs = []
    for from_input in gates.unbind(1):
        z, i, f, o = (from_input + torch.einsum("bhj,hgij->bhgi", h, recurrent)).unbind(2)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, dim=1), (c, h)
