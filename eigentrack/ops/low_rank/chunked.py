"""Diagonal-plus-low-rank transitions in chunks: the delta rule and its relatives solve one unit lower triangular system.

A token gates the state, S ← diag(g_t) S, and then each of its n factors adds rank one (1):  S ← S + w uᵀ,  u = t - Ŝᵀ r.

    delta rule   r = b k, w = k, t = b v;   Ŝ is the state that the factor meets, after the gate
    low rank     r, w and t = v are given;  Ŝ is the state before the token and its gate: no factor divides by the gate

Over the F = L n factors of a chunk that the state S enters, with Γ_ij the gates between column j and reader i (none: Γ = 1):

    u_i = t_i - Sᵀ Γ_i0 r_i - Σ_{j<i} (r_iᵀ Γ_ij w_j) u_j                         (2)

is solved by forward substitution: it stays exact at b = 2 with equal keys, where doubling a Neumann series loses everything.
Then y_i = Sᵀ Γ_i0 q_i + Σ_{j≤i} (q_iᵀ Γ_ij w_j) u_j (3), S' = Γ_F0 S + Σ_j Γ_Fj w_j u_jᵀ (4).
Equations: docs/derivations/low_rank.md.

R chunks of a group  L tokens per chunk  n factors per token  H heads  K key dim  V value dim
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.chunk_decay import channel_decay_scores, pairwise_decay
from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing


def low_rank(
    q: Float[Tensor, "B T H K"],
    read: Float[Tensor, "B T H n K"],
    write: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"],
    packing: Packing | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    def factors(read: Tensor, write: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return read, write, v

    return in_chunks(q, (read, write, v), factors, gate, True, initial_state, packing, chunk_size)


def in_chunks(
    q: Float[Tensor, "B T H K"],
    parts: tuple[Float[Tensor, "B T H n _"], ...],
    factors: Callable[..., tuple[Tensor, Tensor, Tensor]],
    gate: Tensor | None,
    ahead: bool,
    initial_state: Float[Tensor, "S H K V"],
    packing: Packing | None,
    chunk_size: int,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Run the recurrence (1) in chunks of `chunk_size` factors, and return the outputs and the last state.

    Args:
        q: the queries.
        parts: the tensors from which the factors are made.
        factors: makes r, w and t, each [R, H, F, ·], of the parts.
        gate: one entry per head or per key channel; None for no gate.
        ahead: whether a factor reads the state before its token's gate, as in low_rank, or after it.
        initial_state: the state before the first token, one row per sequence.
        packing: the bounds of packed sequences; None for a plain batch.
        chunk_size: factors per chunk, of whole tokens.
    """
    _, _, heads, key_dim = q.shape
    number = parts[0].shape[3]
    tokens = max(1, chunk_size // number)
    layout = chunk_layout(q, packing, tokens, floats_per_chunk=heads * tokens * number * max(tokens * number, key_dim))
    carry = Carry(layout, initial_state)
    # slots without a token have zero factors and gate 1: they keep the state
    gates = [None] * len(layout.groups) if gate is None else layout.split(gate, fill=1.0)
    outputs = []
    for steps, q_group, gate_group, *group in zip(
        layout.groups, layout.split(q), gates, *map(layout.split, parts), strict=True
    ):
        in_a_row = (x.permute(0, 2, 1, 3, 4).flatten(2, 3) for x in group)  # [R, H, F, ·]
        outputs.append(_run_group(carry, steps, q_group.transpose(1, 2), *factors(*in_a_row), gate_group, ahead))
    return layout.join(outputs), carry.last_state()


def _run_group(
    carry: Carry,
    steps: tuple[int, ...],
    q: Float[Tensor, "R H L K"],
    read: Float[Tensor, "R H F K"],
    write: Float[Tensor, "R H F K"],
    target: Float[Tensor, "R H F V"],
    gate: Float[Tensor, "R L H"] | Float[Tensor, "R L H K"] | None,
    ahead: bool,
) -> Float[Tensor, "R L H V"]:
    rows = [read.shape[2], q.shape[2]]
    keep: list[Tensor] = []
    if gate is None:
        readers = torch.cat([read, q], dim=2)  # [R, H, F+L, K]: both meet the same columns and the same state
        meetings = (readers @ write.mT) * _causal(read, q)  # [R, H, F+L, F]
    elif gate.ndim == 3:
        meetings, readers, write, *keep = _gated_by_head(q, read, write, gate.transpose(1, 2), ahead)
    else:
        meetings, readers, write, *keep = _gated_by_channel(q, read, write, gate.transpose(1, 2), ahead)

    def advance(
        state: Tensor, readers: Tensor, meetings: Tensor, target: Tensor, write: Tensor, *keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        stored, found = (readers @ state).split(rows, dim=2)
        met, scores = meetings.split(rows, dim=2)
        u = torch.linalg.solve_triangular(met, target - stored, upper=False, unitriangular=True)
        return (keep[0] * state if keep else state) + write.mT @ u, found + scores @ u

    return carry.run(steps, advance, readers, meetings, target, write, *keep).transpose(1, 2)


def _causal(read: Tensor, q: Tensor) -> Tensor:
    """Return the mask [F+L, F] of the columns that factors and queries meet.

    A factor meets all, since the solve ignores the upper triangle; a query meets the factors up to its own token.
    """
    factors, tokens = read.shape[2], q.shape[2]
    mask = q.new_ones(tokens, tokens).tril().repeat_interleave(factors // tokens, dim=1)
    return torch.cat([mask.new_ones(factors, factors), mask])


def _gated_by_head(q: Tensor, read: Tensor, write: Tensor, gate: Float[Tensor, "R H L"], ahead: bool) -> tuple[Tensor, ...]:
    """Return the meetings [R, H, F+L, F], the readers of the state that enters, the columns decayed to the chunk's end, and the
    decay of the state itself, with one gate per head."""
    tokens, factors = q.shape[2], read.shape[2] // q.shape[2]
    decay = pairwise_decay(gate)  # [R, H, L+1, L+1]
    to_factor = decay[..., 1:].repeat_interleave(factors, dim=-1)  # a token's gate acts before its first factor
    token = torch.arange(1, tokens + 1, device=q.device)
    moments = torch.cat([(token - int(ahead)).repeat_interleave(factors), token])
    readers = torch.cat([read, q], dim=2)
    meetings = (readers @ write.mT) * to_factor[..., moments, :]
    return meetings, readers * decay[..., moments, :1], write * to_factor[..., -1, :, None], decay[..., -1:, :1]


def _gated_by_channel(
    q: Tensor, read: Tensor, write: Tensor, gate: Float[Tensor, "R H L K"], ahead: bool
) -> tuple[Tensor, ...]:
    """Return what `_gated_by_head` returns, with one gate per key channel: a token's n factors and its query are n + 1 rows
    after its gate."""
    read = read.unflatten(2, (q.shape[2], -1))  # [R, H, L, n, K]
    # to read before a token's gate is to read after the gate of the token before it; nothing precedes the first token
    behind = torch.cat([read[:, :, 1:], torch.zeros_like(read[:, :, :1])], dim=2) if ahead else read
    rows = torch.cat([behind, q[..., None, :]], dim=3)
    scores, from_start, to_end = channel_decay_scores(rows.flatten(2, 3), write, gate)
    split = [read.shape[3], 1]
    met, scores = scores.unflatten(2, rows.shape[2:4]).split(split, dim=3)
    stored, found = (rows * from_start.view_as(rows)).split(split, dim=3)
    if ahead:
        met = torch.cat([torch.zeros_like(met[:, :, :1]), met[:, :, :-1]], dim=2)
        stored = torch.cat([read[:, :, :1], stored[:, :, :-1]], dim=2)
    meetings, readers = (torch.cat([x.flatten(2, 3), y.flatten(2, 3)], dim=2) for x, y in ((met, scores), (stored, found)))
    return meetings, readers, write * to_end, from_start[..., -1, :, None]
