"""Mamba's selective scan, for every channel d and state index n:

a_t = range(exp(Δ_t A)),   h_t = a_t R(θ_t) h_{t-1} + Δ_t B_t x_t,   y_t = (Σ_n C_t h_t + D x_t) silu(z_t).

R turns pairs of the N, by angles that all channels share; with it, A has one entry per pair. Without `turns` R is left out.

B batch  T time  D channels  N state size  P = N/2 pairs
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.shared.packing import per_sequence
from eigentrack.ops.shared.rotation import angles_by_token, rotate
from eigentrack.spectrum import EigenRange


@per_sequence
def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None,
    turns: Float[Tensor, "B T P"] | None = None,
    *,
    log_decay: Float[Tensor, "D N"] | Float[Tensor, "D P"],
    skip: Float[Tensor, " D"] | None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "B D N"],
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    state, outputs = initial_state, []
    if turns is not None:
        log_decay = log_decay.repeat_interleave(2, -1)  # from pairs to N
    angles = angles_by_token(None if turns is None else turns[:, :, None])
    for x_t, dt_t, b_t, c_t, angle_t in zip(x.unbind(1), dt.unbind(1), b.unbind(1), c.unbind(1), angles, strict=False):
        a_t = eigenvalues.eigenvalue(torch.exp(dt_t[..., None] * log_decay))
        turned = state if angle_t is None else rotate(state, *angle_t)
        state = a_t * turned + torch.einsum("bd,bd,bn->bdn", dt_t, x_t, b_t)
        outputs.append(torch.einsum("bdn,bn->bd", state, c_t))
    y = torch.stack(outputs, dim=1)
    if skip is not None:
        y = y + skip * x
    if z is not None:
        y = y * F.silu(z)
    return y, state
