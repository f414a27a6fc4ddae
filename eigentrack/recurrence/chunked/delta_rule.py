"""Delta rule in chunks, by the WY form of a product of generalized Householder factors.

S_i = g_i (I - b_i k_i k_iᵀ) S_{i-1} + b_i k_i v_iᵀ over the F = L n factors of a chunk. Put S_i = g_i S_{i-1} + k_i u_iᵀ (1):

    u_i = b_i (v_i - Γ_i0 Sᵀk_i - Σ_{j<i} Γ_ij (k_i·k_j) u_j)                       (2)

is a unit lower triangular system, solved by forward substitution: it stays exact at b = 2 with equal keys, where doubling
a Neumann series loses everything. Then y_i = Γ_i0 Sᵀq_i + Σ_{j≤i} Γ_ij (q_i·k_j) u_j (3), S' = Γ_F0 S + Σ_j Γ_Fj k_j u_jᵀ (4).
Equations: docs/derivations/delta_rule.md.

R chunks of a group  L tokens a chunk  n factors a token  H heads  K key dim  V value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.recurrence.chunked.carry import Carry
from eigentrack.recurrence.chunked.decay import pairwise_decay
from eigentrack.recurrence.chunked.layout import chunk_layout


def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | None,
    *,
    initial_state: Float[Tensor, "S H K V"],
    cu_seqlens: Tensor | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    _, _, heads, factors, _ = k.shape
    tokens = max(1, chunk_size // factors)
    layout = chunk_layout(q, cu_seqlens, tokens, floats_per_chunk=heads * tokens * factors * max(tokens * factors, k.shape[-1]))
    carry = Carry(layout, initial_state)
    # slots without a token have b = 0 and gate 1: they keep the state
    gates = [None] * len(layout.groups) if gate is None else layout.split(gate, fill=1.0)
    pieces = zip(layout.groups, *(layout.split(x) for x in (q, k, v, beta)), gates, strict=True)
    outputs = [_run_group(carry, *piece) for piece in pieces]
    return layout.join(outputs), carry.last_state()


def _run_group(
    carry: Carry,
    steps: tuple[int, ...],
    q: Float[Tensor, "R L H K"],
    k: Float[Tensor, "R L H n K"],
    v: Float[Tensor, "R L H n V"],
    beta: Float[Tensor, "R L H n"],
    gate: Float[Tensor, "R L H"] | None,
) -> Float[Tensor, "R L H V"]:
    tokens, factors = k.shape[1], k.shape[3]
    q = q.transpose(1, 2)  # [R, H, L, K]
    k, v = (x.permute(0, 2, 1, 3, 4).flatten(2, 3) for x in (k, v))  # [R, H, F, ·]
    beta = beta.permute(0, 2, 1, 3).flatten(2, 3)[..., None]  # [R, H, F, 1]
    readers = torch.cat([beta * k, q], dim=2)  # [R, H, F+L, K]: scaled keys and queries meet the same keys and the same state
    meetings = readers @ k.mT  # [R, H, F+L, F]
    if gate is None:
        meetings = meetings * _causal(meetings, tokens, factors)
        keep = []
    else:
        decay = pairwise_decay(gate.transpose(1, 2))  # [R, H, L+1, L+1]
        to_factor = decay[..., 1:].repeat_interleave(factors, dim=-1)  # a token's gate acts before its first factor
        token = torch.arange(1, tokens + 1, device=k.device)
        rows = torch.cat([token.repeat_interleave(factors), token])
        meetings = meetings * to_factor[..., rows, :]
        readers = readers * decay[..., rows, :1]
        k = k * to_factor[..., -1, :, None]
        keep = [decay[..., -1:, :1]]

    def advance(
        state: Tensor, readers: Tensor, meetings: Tensor, values: Tensor, k: Tensor, *keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        stored, read = (readers @ state).split([k.shape[2], tokens], dim=2)
        met, scores = meetings.split([k.shape[2], tokens], dim=2)
        u = torch.linalg.solve_triangular(met, values - stored, upper=False, unitriangular=True)
        return (keep[0] * state if keep else state) + k.mT @ u, read + scores @ u

    return carry.run(steps, advance, readers, meetings, beta * v, k, *keep).transpose(1, 2)


def _causal(meetings: Tensor, tokens: int, factors: int) -> Tensor:
    """[F+L, F]: everything for the keys, whose upper triangle the solve ignores; the factors up to its token for a query."""
    mask = torch.ones(tokens, tokens, dtype=meetings.dtype, device=meetings.device).tril().repeat_interleave(factors, dim=1)
    return torch.cat([torch.ones_like(mask).repeat_interleave(factors, dim=0), mask])
