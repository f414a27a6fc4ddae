"""Products of signed gates between any two tokens of a chunk, Γ_ij = a_{j+1} ··· a_i, without a single division.

L tokens per chunk  K key dim  m, n rows per token. Equations: docs/derivations/gated_linear.md.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def pairwise_decay(a: Float[Tensor, "*batch L"]) -> Float[Tensor, "*batch L+1 L+1"]:
    """Return Γ_ij for i, j = 0..L, zero above the diagonal, from the gates a of a chunk.

    Index 0 is the moment before the chunk, index t the moment after token t.
    """
    return _PairwiseDecay.apply(a)


class _PairwiseDecay(torch.autograd.Function):
    """Γ_ij in signed log space (1): |Γ_ij| = exp Σ log|a_s|, sign Γ_ij = parity of the negative a_s; s = j+1..i."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        steps = torch.cat([torch.ones_like(a[..., :1]), a], dim=-1)
        size = steps.shape[-1]
        later = torch.ones(size, size, dtype=torch.bool, device=a.device).tril(-1)
        # one sum for every start j: a difference of two running sums would cancel, and be inf - inf at a = 0
        log_magnitude = torch.where(later, steps.abs().log()[..., None], 0.0).cumsum(-2)
        negatives = (steps < 0).cumsum(-1)
        odd = (negatives[..., :, None] - negatives[..., None, :]) % 2 == 1
        magnitude = log_magnitude.exp()
        decay = torch.where(odd, -magnitude, magnitude).tril()
        ctx.save_for_backward(decay)
        return decay

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient by ∂Γ_ij/∂a_t = Γ_it Γ_{t-1,j} (2), exact at a_t = 0, where a quotient Γ_ij / a_t is not.

        It is a function of Γ, which autograd differentiates again.
        """
        (decay,) = ctx.saved_tensors
        through = decay.mT @ grad  # [.., t, j] Σ_i Γ_it G_ij
        return (through[..., 1:, :] * decay[..., :-1, :]).sum(-1)


def channel_decay_scores(
    q: Float[Tensor, "*batch Lm K"], k: Float[Tensor, "*batch Ln K"], a: Float[Tensor, "*batch L K"]
) -> tuple[Float[Tensor, "*batch Lm Ln"], Float[Tensor, "*batch Lm K"], Float[Tensor, "*batch Ln K"]]:
    """Return the scores Σ_c q_ic Γ_ijc k_jc, and the decays from_start_i = Γ_i0 and to_end_j = Γ_Lj.

    Scores are zero where the token of j comes after the token of i. Each token has m rows of q and n rows of k, all of them
    after its gate `a`: row i belongs to token i // m, row j to token j // n. Blocks of tokens double in size (3): a product
    that spans two neighbouring blocks crosses their border, so it factors into a running product up to the border and one after
    it. Nothing is divided, so the products and their gradients are exact at a = 0 and ±1.
    """
    tokens = a.shape[-2]
    missing = 2 ** (tokens - 1).bit_length() - tokens  # tokens up to a power of two, padded with gates of 1
    rows, columns = q.shape[-2], k.shape[-2]
    q, k = (F.pad(x.unflatten(-2, (tokens, -1)), (0, 0, 0, 0, 0, missing)) for x in (q, k))  # [.., blocks, m or n, K]
    a = F.pad(a, (0, 0, 0, missing), value=1.0)[..., None, :]
    scores = (q[..., None, :] * k[..., None, :, :]).sum(-1)  # [.., blocks, m, n]
    from_start, to_end = a.expand_as(q), torch.ones_like(k)
    while scores.shape[-3] > 1:
        left, right = _halves(from_start)
        left_to_end, right_to_end = _halves(to_end)
        (q_left, q_right), (k_left, k_right) = _halves(q), _halves(k)
        scores_left, scores_right = _halves(scores)
        across = (q_right * right) @ (k_left * left_to_end).mT
        scores = torch.cat(
            [torch.cat([scores_left, torch.zeros_like(across)], -1), torch.cat([across, scores_right], -1)], dim=-2
        )
        from_start = torch.cat([left, left[..., -1:, :] * right], dim=-2)
        to_end = torch.cat([left_to_end * right[..., -1:, :], right_to_end], dim=-2)
        q, k = torch.cat([q_left, q_right], dim=-2), torch.cat([k_left, k_right], dim=-2)
    scores, from_start, to_end = (x.squeeze(-3) for x in (scores, from_start, to_end))
    return scores[..., :rows, :columns], from_start[..., :rows, :], to_end[..., :columns, :]


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split [.., blocks, h, ·] into the left and the right block of every pair, [.., blocks/2, h, ·] each."""
    return x[..., 0::2, :, :], x[..., 1::2, :, :]
