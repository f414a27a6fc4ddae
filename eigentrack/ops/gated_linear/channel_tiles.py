# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Scores and their gradients with one gate per key channel, for a chunk that one program holds, by blocks that double up to C.

    P_ij = Σ_c q_ic Γ_ijc k_jc,   and Γ_ij = F_i E_j for two tokens on the two sides of a border     (3), (6)

Equations: docs/derivations/gated_linear.md.

C tokens per chunk, 2^LEVELS  L tokens per block  K key dim  BK block of K, a power of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.gated_linear.gates import (
    across,
    block_from_start,
    block_to_end,
    from_start,
    hand_down,
    to_end,
)
from eigentrack.ops.shared.tiles import product


@triton.jit
def scores_across(
    b_qt, b_kt, b_a, b_after, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr
):
    """Return P_ij for i and j on the two sides of a border between blocks of L tokens."""
    b_right = tl.trans(b_qt * block_from_start(b_a, L, C, BK))
    b_left = b_kt * block_to_end(b_after, L, C, BK)
    return tl.where(across(L, C), product(b_right, b_left, OPERAND, PRECISION), 0.0)


@triton.jit
def channel_scores(
    b_qt,
    b_kt,
    b_a,
    b_after,
    LEVELS: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return P of (6), zero above the diagonal, from columns [BK, C]: queries, keys, gates, and gates of the next tokens."""
    o = tl.arange(0, C)
    b_own = tl.sum(b_qt.to(tl.float32) * b_kt.to(tl.float32), axis=0)
    b_scores = tl.where(o[:, None] == o[None, :], b_own[:, None], 0.0)
    for level in tl.static_range(LEVELS):
        b_scores += scores_across(b_qt, b_kt, b_a, b_after, 2**level, C, BK, OPERAND, PRECISION)
    return b_scores


@triton.jit
def gradients_across(
    b_qt, b_kt, b_f, b_e, b_pairs, L: tl.constexpr, C: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr
):
    """Return the gradients of F ⊙ q and of E ⊙ k (11), from the pairs on the two sides of a border."""
    b_met = tl.where(across(L, C), b_pairs, 0.0)
    b_of_q = product(b_kt * b_e, tl.trans(b_met), OPERAND, PRECISION)
    return b_of_q, product(b_qt * b_f, b_met, OPERAND, PRECISION)


@triton.jit
def channel_gradients(
    b_qt,
    b_kt,
    b_a,
    b_after,
    b_pairs,
    b_queried,
    b_stored,
    b_kept,
    LEVELS: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return dq, dk, da as columns (9), (12), from G_ij = dy_i·v_j, Y and X [BK, C], and ⟨S, dS'⟩ [BK].

    What G has above the diagonal does not matter.
    """
    o = tl.arange(0, C)
    b_own = tl.sum(tl.where(o[:, None] == o[None, :], b_pairs, 0.0), axis=0)[None, :]
    b_dqt = b_queried * from_start(b_a, True) + b_own * b_kt
    b_dkt = b_stored * to_end(b_after, True) + b_own * b_qt
    b_df = b_qt * b_queried + tl.where((o == C - 1)[None, :], b_kept[:, None], 0.0)
    b_de = b_kt * b_stored
    for step in tl.static_range(LEVELS):
        b_f = block_from_start(b_a, 2 ** (LEVELS - 1 - step), C, BK)
        b_e = block_to_end(b_after, 2 ** (LEVELS - 1 - step), C, BK)
        b_df, b_de = hand_down(b_df, b_de, b_f, b_e, 2 ** (LEVELS - 1 - step), C, BK)
        b_of_q, b_of_k = gradients_across(b_qt, b_kt, b_f, b_e, b_pairs, 2 ** (LEVELS - 1 - step), C, OPERAND, PRECISION)
        b_df += b_qt * b_of_q
        b_de += b_kt * b_of_k
        b_dqt += b_of_q * b_f
        b_dkt += b_of_k * b_e
    return b_dqt, b_dkt, b_df  # for blocks of one token F = a, so b_df is da
