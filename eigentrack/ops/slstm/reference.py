"""sLSTM, non-linear: gates read the previous output h through R, one block per head.

(z̃, ĩ, f̃, õ)_t = W x_t + R h_{t-1};   c_t = σ(f̃) c_{t-1} + e^ĩ tanh z̃,   n_t = σ(f̃) n_{t-1} + e^ĩ,   h_t = σ(õ) c_t / n_t.

c and n are stored divided by e^m, m_t = max(log σ(f̃) + m_{t-1}, ĩ); m only chooses units and carries no gradient.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.shared.packing import per_sequence

SLSTMState = tuple[Float[Tensor, "B H D"], Float[Tensor, "B H D"], Float[Tensor, "B H D"], Float[Tensor, "B H D"]]


@per_sequence
def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: SLSTMState,
) -> tuple[Float[Tensor, "B T H D"], SLSTMState]:
    c, n, h, m = initial_state
    m, outputs = m.detach(), []
    for from_input in gates.unbind(1):
        z, i, f, o = (from_input + torch.einsum("bhj,hgij->bhgi", h, recurrent)).unbind(2)
        log_f = F.logsigmoid(f)
        m_before, m = m, torch.maximum(log_f + m, i).detach()
        keep, write = torch.exp(log_f + m_before - m), torch.exp(i - m)
        c = keep * c + write * torch.tanh(z)
        n = keep * n + write
        h = torch.sigmoid(o) * c / n
        outputs.append(h)
    return torch.stack(outputs, dim=1), (c, n, h, m)
