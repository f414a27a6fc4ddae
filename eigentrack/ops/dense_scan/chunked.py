"""Dense scan in chunks: S_t = A_t S_{t-1} + B_t.

All chunks of a group run side by side from S = 0 and keep the products P_i = A_i ··· A_1; then S_i = P_i S + (S_i from zero).
With a limit, powers of two are taken out of P_i where it grows large, and put back into S_i as far as the limit allows.

R chunks of a group  L tokens per chunk  H heads  n rows of the state  m columns
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.dense_scan.reference import largest_entry
from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing

LARGEST_PRODUCT = 2.0**32  # the largest entry of P_i that is kept, where there is a limit
LARGEST_SCALE = 2.0**100  # the largest power of two to put back, so that it is finite


def dense_scan(
    a: Float[Tensor, "B T H n n"],
    b: Float[Tensor, "B T H n m"] | None,
    *,
    initial_state: Float[Tensor, "S H n m"],
    packing: Packing | None,
    limit: float | None = None,
    chunk_size: int = 16,
) -> tuple[Float[Tensor, "B T H n m"], Float[Tensor, "S H n m"]]:
    heads, n, m = initial_state.shape[1:]
    layout = chunk_layout(a, packing, chunk_size, floats_per_chunk=heads * n * (n + m))
    carry = Carry(layout, initial_state)
    inputs = [None] * len(layout.groups) if b is None else layout.split(b)
    pieces = zip(layout.groups, layout.split(a), inputs, layout.padding(), strict=True)
    outputs = [_run_group(carry, limit, *piece) for piece in pieces]
    return layout.join(outputs), carry.last_state()


def _run_group(
    carry: Carry,
    limit: float | None,
    steps: tuple[int, ...],
    a: Float[Tensor, "R L H n n"],
    b: Float[Tensor, "R L H n m"] | None,
    padding: Tensor | None,
) -> Float[Tensor, "R L H n m"]:
    n = a.shape[-1]
    identity = torch.eye(n, dtype=a.dtype, device=a.device)
    if padding is not None:  # slots without a token keep the state
        a = torch.where(padding[..., None, None, None], identity, a)

    running = identity.expand(a.shape[0], *a.shape[2:])  # [P_i | S_i from zero]
    if b is not None:
        running = F.pad(running, (0, b.shape[-1]))
        b = F.pad(b, (n, 0))
    history, scale, scales = [], a.new_ones(a.shape[0], a.shape[2], 1, 1), []
    inputs: Sequence[Tensor | float] = [0.0] * a.shape[1] if b is None else b.unbind(1)
    for a_t, b_t in zip(a.unbind(1), inputs, strict=True):
        running = a_t @ running + b_t
        if limit is not None:
            down = _down(running)
            running, scale = running * down, scale / down
        history.append(running)
        scales.append(scale.clamp_max(LARGEST_SCALE))
    within = torch.stack(history, dim=1)  # [R, L, H, n, n + m]

    def advance(state: Tensor, product: Tensor, from_zero: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        states = product @ state[:, None]
        if b is not None:
            states = states + from_zero
        if limit is not None:
            states = states * torch.minimum(scale, limit / largest_entry(states))
        return states[:, -1], states

    return carry.run(steps, advance, within[..., :n], within[..., n:], torch.stack(scales, dim=1))


def _down(product: Float[Tensor, "R H n n"]) -> Float[Tensor, "R H 1 1"]:
    """Return the power of two that scales the entries down to LARGEST_PRODUCT, or 1 if none is larger; it has no gradient."""
    return torch.exp2((math.log2(LARGEST_PRODUCT) - torch.log2(largest_entry(product)).ceil()).clamp_max(0.0))
