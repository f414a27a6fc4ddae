"""S4D, a diagonal recurrence that is the same at every token, for every channel d and state index n:

h_t = a R(θ) h_{t-1} + x_t e,   y_t = Σ_n c h_t.

Without angles, R is left out and e = 1. With them, R turns pairs of the N entries, a has one entry per pair, and e = (1, 0) on
each pair. An input matrix is not needed: it would commute with a R(θ), so c can take its part.

B batch  T time  D channels  N state size  n: N, or N/2 pairs
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence
from eigentrack.ops.shared.rotation import rotate, rotation


@per_sequence
def s4d(
    x: Float[Tensor, "B T D"],
    *,
    a: Float[Tensor, "D n"],
    turns: Float[Tensor, "D n"] | None,
    c: Float[Tensor, "D N"],
    initial_state: Float[Tensor, "B D N"],
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    state, outputs = initial_state, []
    entry, angle = torch.ones_like(c), None
    if turns is not None:
        angle = rotation(turns)
        entry = torch.stack([torch.ones_like(a), torch.zeros_like(a)], -1).flatten(-2)
        a = a.repeat_interleave(2, -1)  # from pairs to N
    for x_t in x.unbind(1):
        turned = state if angle is None else rotate(state, *angle)
        state = a * turned + x_t[..., None] * entry
        outputs.append(torch.einsum("bdn,dn->bd", state, c))
    return torch.stack(outputs, dim=1), state
