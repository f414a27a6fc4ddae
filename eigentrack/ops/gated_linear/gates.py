# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Products of signed gates in one chunk of C tokens, Γ_ij = a_{j+1} ··· a_i, without a single division.

Gates are given as [C], one per head, or as columns [BK, C], one per channel. Where there is no token or no channel, a = 1.
Equations: docs/derivations/gated_linear.md.

C tokens per chunk  L tokens per block  K key dim  BK block of K
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_gates(a, o_token, o_k, tokens, heads, K: tl.constexpr, CHANNEL: tl.constexpr):
    """Load the gates of the tokens o_token in float32."""
    if CHANNEL:
        mask = (o_token < tokens)[None, :] & (o_k < K)[:, None]
        b_a = tl.load(a + (o_token * heads * K)[None, :] + o_k[:, None], mask=mask, other=1.0)
    else:
        b_a = tl.load(a + o_token * heads, mask=o_token < tokens, other=1.0)
    return b_a.to(tl.float32)


@triton.jit
def from_start(b_a, CHANNEL: tl.constexpr):
    """Return Γ_i0 as [BK or 1, C], from the gates of tokens 1..C."""
    return tl.cumprod(b_a, axis=1) if CHANNEL else tl.cumprod(b_a, axis=0)[None, :]


@triton.jit
def to_end(b_after, CHANNEL: tl.constexpr):
    """Return Γ_Cj as [BK or 1, C], from the gates of tokens 2..C+1, the last of them 1."""
    return tl.cumprod(b_after, axis=1, reverse=True) if CHANNEL else tl.cumprod(b_after, axis=0, reverse=True)[None, :]


@triton.jit
def column(b_matrix, at, C: tl.constexpr):
    """Return column `at` of a matrix [rows, C], as [rows]."""
    return tl.sum(tl.where((tl.arange(0, C) == at)[None, :], b_matrix, 0.0), axis=1)


@triton.jit
def decay_columns(b_a, C: tl.constexpr):
    """Return Γ transposed, [j, i], zero below the diagonal, from one gate per token, [C]."""
    o = tl.arange(0, C)
    b_steps = tl.where(o[:, None] < o[None, :], b_a[None, :], 1.0)
    return tl.where(o[:, None] <= o[None, :], tl.cumprod(b_steps, axis=1), 0.0)


@triton.jit
def block_from_start(b_a, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """Return F of (6): the product of gates from the start of each token's block of L tokens up to the token."""
    b_product = b_a
    if L > 1:
        b_product = tl.reshape(tl.cumprod(tl.reshape(b_a, [BK, C // L, L]), axis=2), [BK, C])
    return b_product


@triton.jit
def block_to_end(b_after, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """Return E of (6): the product of gates after each token up to the end of its block of L tokens."""
    o = tl.arange(0, C)
    b_product = tl.where((o % L == L - 1)[None, :], 1.0, b_after)
    if L > 1:
        b_product = tl.reshape(tl.cumprod(tl.reshape(b_product, [BK, C // L, L]), axis=2, reverse=True), [BK, C])
    return b_product


@triton.jit
def pair_total(b_x, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """Return the sum over every pair of neighbouring blocks of L tokens, at each of their tokens."""
    b_pairs = tl.reshape(b_x, [BK, C // (2 * L), 2 * L])
    b_total = tl.sum(b_pairs, axis=2, keep_dims=True)
    return tl.reshape(tl.broadcast_to(b_total, [BK, C // (2 * L), 2 * L]), [BK, C])


@triton.jit
def across(L: tl.constexpr, C: tl.constexpr):
    """Return the mask [i, j] that is true if j is in the left block of a pair of blocks and i in the right one."""
    o_block = tl.arange(0, C) // L
    return (o_block[:, None] % 2 == 1) & (o_block[:, None] == o_block[None, :] + 1)


@triton.jit
def hand_down(b_df, b_de, b_f, b_e, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """Return the gradients of F and E of blocks of L tokens, from those of blocks of 2L tokens (12).

    b_f and b_e are F and E of blocks of L tokens.
    """
    o = tl.arange(0, C)
    m_right = ((o // L) % 2 == 1)[None, :]
    m_last = (o % L == L - 1)[None, :]
    b_left = pair_total(tl.where(m_last & ~m_right, b_f, 0.0), L, C, BK)  # the product over all of the left block
    b_right = pair_total(tl.where(m_last & m_right, b_f, 0.0), L, C, BK)
    b_of_left = pair_total(tl.where(m_right, b_df * b_f, 0.0), L, C, BK)
    b_of_right = pair_total(tl.where(m_right, 0.0, b_de * b_e), L, C, BK)
    b_df = tl.where(m_right, b_df * b_left, b_df) + tl.where(m_last, tl.where(m_right, b_of_right, b_of_left), 0.0)
    return b_df, tl.where(m_right, b_de, b_de * b_right)
