"""Dense scan: S_t = A_t S_{t-1} + B_t with a full matrix A_t; every S_t is returned.

B batch  T time  H heads  n rows of the state  m columns
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import per_sequence


@per_sequence
def dense_scan(
    a: Float[Tensor, "B T H n n"],
    b: Float[Tensor, "B T H n m"] | None,
    *,
    initial_state: Float[Tensor, "B H n m"],
    limit: float | None = None,
) -> tuple[Float[Tensor, "B T H n m"], Float[Tensor, "B H n m"]]:
    state, states = initial_state, []
    inputs: Sequence[Tensor | float] = [0.0] * a.shape[1] if b is None else b.unbind(1)
    for a_t, b_t in zip(a.unbind(1), inputs, strict=True):
        state = torch.einsum("bhij,bhjm->bhim", a_t, state) + b_t
        states.append(state)
        state = held_below(limit, state)
    return torch.stack(states, dim=1), state


def held_below(limit: float | None, state: Float[Tensor, "B H n m"]) -> Float[Tensor, "B H n m"]:
    """Return the state, scaled down until no entry exceeds the limit; the scale has no gradient."""
    if limit is None:
        return state
    return state * (limit / largest_entry(state)).clamp_max(1.0)


def largest_entry(matrices: Float[Tensor, "*batch n m"]) -> Float[Tensor, "*batch 1 1"]:
    """Return the largest absolute entry of each matrix, detached."""
    return matrices.detach().abs().amax((-2, -1), keepdim=True)
