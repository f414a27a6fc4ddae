# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Products of signed gates in one chunk of C tokens, Γ_ij = a_{j+1} ··· a_i: all of them direct, none is ever divided.

Gates come as columns, [gates, C]: one row for all channels, or one for each. Where there is no token or no channel a = 1.
Equations: docs/derivations/gated_linear.md.

C tokens a chunk  L blocks' length  K key dim  BK block of K
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_gates(a, o_token, o_gate, tokens, heads, GATES: tl.constexpr):
    """The gates of the tokens o_token, as columns: [gates, tokens] in float32."""
    mask = (o_token < tokens)[None, :] & (o_gate < GATES)[:, None]
    return tl.load(a + (o_token * heads * GATES)[None, :] + o_gate[:, None], mask=mask, other=1.0).to(tl.float32)


@triton.jit
def from_start(b_a):
    """Γ_i0, from the gates of tokens 1..C."""
    return tl.cumprod(b_a, axis=1)


@triton.jit
def to_end(b_after):
    """Γ_Cj, from the gates of tokens 2..C+1, the last of them 1."""
    return tl.cumprod(b_after, axis=1, reverse=True)


@triton.jit
def column(b_matrix, at, C: tl.constexpr):
    """One column of [rows, C]: [rows]."""
    return tl.sum(tl.where((tl.arange(0, C) == at)[None, :], b_matrix, 0.0), axis=1)


@triton.jit
def decay_columns(b_a, C: tl.constexpr):
    """Γ transposed, [j, i]: zero below the diagonal. From one gate a token, [1, C]."""
    o = tl.arange(0, C)
    b_steps = tl.where(o[:, None] < o[None, :], b_a, 1.0)
    return tl.where(o[:, None] <= o[None, :], tl.cumprod(b_steps, axis=1), 0.0)


@triton.jit
def block_from_start(b_a, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """For blocks of L tokens: the product from the start of a token's block up to it, F of (6)."""
    b_product = b_a
    if L > 1:
        b_product = tl.reshape(tl.cumprod(tl.reshape(b_a, [BK, C // L, L]), axis=2), [BK, C])
    return b_product


@triton.jit
def block_to_end(b_after, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """For blocks of L tokens: the product after a token up to the end of its block, E of (6)."""
    o = tl.arange(0, C)
    b_product = tl.where((o % L == L - 1)[None, :], 1.0, b_after)
    if L > 1:
        b_product = tl.reshape(tl.cumprod(tl.reshape(b_product, [BK, C // L, L]), axis=2, reverse=True), [BK, C])
    return b_product


@triton.jit
def pair_total(b_x, L: tl.constexpr, C: tl.constexpr, BK: tl.constexpr):
    """The sum over two neighbouring blocks of L tokens, at each of their tokens."""
    b_pairs = tl.reshape(b_x, [BK, C // (2 * L), 2 * L])
    b_total = tl.sum(b_pairs, axis=2, keep_dims=True)
    return tl.reshape(tl.broadcast_to(b_total, [BK, C // (2 * L), 2 * L]), [BK, C])
