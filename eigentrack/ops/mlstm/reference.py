"""mLSTM: matrix memory C, normaliser n, exponential input gate e^i, forget gate f in any EigenRange:

C_t = f_t C_{t-1} + e^{i_t} k_t v_tᵀ,   n_t = f_t n_{t-1} + e^{i_t} k_t,   y_t = C_tᵀ q_t / max(|n_t·q_t|, 1).

C and n are stored divided by e^m, m_t = max(log|f_t| + m_{t-1}, i_t), so that nothing overflows. m only chooses units:
y does not depend on it, so it carries no gradient.

B batch  T time  H heads  K key dim  V value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence


@per_sequence
def mlstm(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    i: Float[Tensor, "B T H"],
    f: Float[Tensor, "B T H"],
    *,
    initial_state: tuple[Float[Tensor, "B H K V"], Float[Tensor, "B H K"], Float[Tensor, "B H"]],
) -> tuple[Float[Tensor, "B T H V"], tuple[Float[Tensor, "B H K V"], Float[Tensor, "B H K"], Float[Tensor, "B H"]]]:
    memory, normaliser, m = initial_state
    m, outputs = m.detach(), []
    for q_t, k_t, v_t, i_t, f_t in zip(q.unbind(1), k.unbind(1), v.unbind(1), i.unbind(1), f.unbind(1), strict=True):
        m_before, m = m, torch.maximum(log_magnitude(f_t) + m, i_t).detach()
        keep = (f_t * torch.exp(m_before - m))[..., None]
        write = torch.exp(i_t - m)[..., None] * k_t
        memory = keep[..., None] * memory + torch.einsum("bhk,bhv->bhkv", write, v_t)
        normaliser = keep * normaliser + write
        read = torch.einsum("bhk,bhkv->bhv", q_t, memory)
        weight = torch.einsum("bhk,bhk->bh", q_t, normaliser)
        outputs.append(read / torch.maximum(weight.abs(), torch.exp(-m))[..., None])
    return torch.stack(outputs, dim=1), (memory, normaliser, m)


def log_magnitude(f: Tensor) -> Tensor:
    """Return log|f|, finite at f = 0: there f e^{m_before - m} is 0 for any m, but e^{m_before - m} must not overflow."""
    return f.detach().abs().clamp_min(torch.finfo(f.dtype).tiny).log()
