"""Mamba's selective scan, for every channel d and state index n:

a_t = range(exp(Δ_t A)),   h_t = a_t h_{t-1} + Δ_t B_t x_t,   y_t = (Σ_n C_t h_t + D x_t) silu(z_t).

B batch  T time  D channels  N state size
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.recurrence.reference.per_sequence import per_sequence
from eigentrack.spectrum import EigenRange


@per_sequence
def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None,
    *,
    log_decay: Float[Tensor, "D N"],
    skip: Float[Tensor, " D"] | None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "B D N"],
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    state, outputs = initial_state, []
    for x_t, dt_t, b_t, c_t in zip(x.unbind(1), dt.unbind(1), b.unbind(1), c.unbind(1), strict=True):
        a_t = eigenvalues.eigenvalue(torch.exp(dt_t[..., None] * log_decay))
        state = a_t * state + torch.einsum("bd,bd,bn->bdn", dt_t, x_t, b_t)
        outputs.append(torch.einsum("bdn,bn->bd", state, c_t))
    y = torch.stack(outputs, dim=1)
    if skip is not None:
        y = y + skip * x
    if z is not None:
        y = y * F.silu(z)
    return y, state
