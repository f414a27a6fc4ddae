"""One-hot scan in chunks: h_t = P_t (d_t ⊙ h_{t-1}) + b_t.

The product of two matrices with one entry per column is such a matrix again. Column j of A_i ··· A_1 has the value v_i[j] in
row p_i[j], and one more factor costs two look-ups per column instead of a product of matrices:

    v_{i+1}[j] = d_{i+1}[p_i[j]] v_i[j],     p_{i+1}[j] = rows_{i+1}[p_i[j]]

All chunks of a group run side by side from h = 0 and keep these pairs; then h_i = A_i ··· A_1 h + (h_i from zero).

R chunks of a group  L tokens per chunk  H heads  N entries of the state  C = 1, or 2 for entries that are pairs
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import rotation


def one_hot_scan(
    a: Float[Tensor, "B T H N"],
    b: Float[Tensor, "B T H M"] | None,
    rows: Int[Tensor, "B T H N"],
    turns: Float[Tensor, "B T H N"] | None = None,
    *,
    initial_state: Float[Tensor, "S H M"],
    packing: Packing | None,
    chunk_size: int = 16,
) -> tuple[Float[Tensor, "B T H M"], Float[Tensor, "S H M"]]:
    heads, entries = a.shape[2:]
    d = a[..., None] if turns is None else a[..., None] * torch.stack(rotation(turns), -1)  # [B, T, H, N, C]
    layout = chunk_layout(a, packing, chunk_size, floats_per_chunk=chunk_size * heads * initial_state.shape[-1])
    carry = Carry(layout, initial_state.unflatten(-1, (entries, -1)))
    inputs = [None] * len(layout.groups) if b is None else layout.split(b.unflatten(-1, (entries, -1)))
    pieces = zip(layout.groups, layout.split(d), inputs, layout.split(rows), layout.padding(), strict=True)
    outputs = [_run_group(carry, *piece) for piece in pieces]
    return layout.join(outputs).flatten(-2), carry.last_state().flatten(-2)


def _run_group(
    carry: Carry,
    steps: tuple[int, ...],
    d: Float[Tensor, "R L H N C"],
    b: Float[Tensor, "R L H N C"] | None,
    rows: Int[Tensor, "R L H N"],
    padding: Tensor | None,
) -> Float[Tensor, "R L H N C"]:
    stay = torch.arange(d.shape[-2], device=d.device)
    one = (torch.arange(d.shape[-1], device=d.device) == 0).to(d.dtype)  # [C], the number 1
    if padding is not None:  # slots without a token keep the state
        rows = torch.where(padding[..., None, None], stay, rows)
        d = torch.where(padding[..., None, None, None], one, d)

    place, value = stay.expand_as(rows[:, 0]), one.expand_as(d[:, 0])  # p_i and v_i
    state = torch.zeros_like(d[:, 0])
    places, values, states = [], [], []
    for t, (d_t, rows_t) in enumerate(zip(d.unbind(1), rows.unbind(1), strict=True)):
        value = _times(_look_up(d_t, place), value)
        place = rows_t.gather(-1, place)
        places.append(place)
        values.append(value)
        if b is not None:
            state = _move(_times(d_t, state), rows_t) + b[:, t]
            states.append(state)

    def advance(state: Tensor, place: Tensor, value: Tensor, *from_zero: Tensor) -> tuple[Tensor, Tensor]:
        moved = _move(_times(value, state[:, None]), place)
        moved = moved + from_zero[0] if from_zero else moved
        return moved[:, -1], moved

    within = [torch.stack(states, dim=1)] if b is not None else []
    return carry.run(steps, advance, torch.stack(places, dim=1), torch.stack(values, dim=1), *within)


def _look_up(entries: Float[Tensor, "*batch N C"], place: Int[Tensor, "*batch N"]) -> Float[Tensor, "*batch N C"]:
    """Return, for each j, the entry at place[j]."""
    return entries.gather(-2, place[..., None].expand_as(entries))


def _move(entries: Float[Tensor, "*batch N C"], place: Int[Tensor, "*batch N"]) -> Float[Tensor, "*batch N C"]:
    """Return the entries with entry j moved to place[j]; those that meet are added."""
    return torch.zeros_like(entries).scatter_add(-2, place[..., None].expand_as(entries), entries)


def _times(x: Float[Tensor, "*#batch N C"], y: Float[Tensor, "*#batch N C"]) -> Float[Tensor, "... N C"]:
    """Return the products of numbers, which are complex if they are pairs."""
    if x.shape[-1] == 1:
        return x * y
    (real, imaginary), (other_real, other_imaginary) = x.unbind(-1), y.unbind(-1)
    parts = [real * other_real - imaginary * other_imaginary, real * other_imaginary + imaginary * other_real]
    return torch.stack(parts, -1)
