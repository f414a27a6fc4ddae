# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Device functions for one chunk of C factors, which every delta-rule kernel uses:

    Γ_ij = g_{j+1} ··· g_i                                  (1)  direct products: exact at g = 0, ±1
    A = (I + strictly lower (Γ_ij (k_i·k_j) b_j))⁻¹         (3)  forward substitution in blocks of 16
    P = lower (Γ_ij (q_i·k_j))                              (4)
    the gradients of q, k, b and g                          (9)-(12)

Rows are factors: row r is factor r % N of token r // N; queries and outputs lie in the row of a token's last factor and are
zero in the others. Rows without a token have k = v = q = 0, b = 0, g = 1: they change nothing.
Equations: docs/derivations/delta_rule_kernels.md.

C rows per chunk  N factors per token  K key dim  V value dim
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.shared.tiles import load_tile, product

SOLVE_BLOCK = tl.constexpr(16)
MEETING_COLUMNS = tl.constexpr(16)  # entries of float32 keys that are multiplied at once; more do not fit into registers
SMALLEST_BETA = tl.constexpr(1e-15)  # the least |b| that (10) divides by


@triton.jit
def solution(b_inverse, b_right, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """Return A @ right. A's diagonal of ones takes the right side as it is, not rounded to OPERAND."""
    return product(b_inverse, b_right, OPERAND, PRECISION) + (b_right - b_right.to(OPERAND).to(tl.float32))


@triton.jit
def chunk_rows(tokens, heads, C: tl.constexpr, N: tl.constexpr):
    """Return the offsets of factors and of tokens for the rows of a chunk with `tokens` tokens, and two masks of rows: those
    that hold a factor, and those that hold the last factor of a token."""
    o_row = tl.arange(0, C)
    o_token = o_row // N
    m_factor = (o_token < tokens) & (o_row < (C // N) * N)
    o_factor = o_token * heads * N + o_row % N
    m_last = m_factor & (o_row % N == N - 1)
    return o_factor, o_token * heads, m_factor, m_last


@triton.jit
def load_gates(gate, o_row, tokens, heads, C: tl.constexpr, N: tl.constexpr):
    """Load g of the given rows: the token's gate in the row of its first factor, 1 in all others and beyond the chunk."""
    m_first = (o_row % N == 0) & (o_row // N < tokens) & (o_row < (C // N) * N)
    return tl.load(gate + o_row // N * heads, mask=m_first, other=1.0).to(tl.float32)


@triton.jit
def last_row(b_matrix, C: tl.constexpr):
    o = tl.arange(0, C)
    return tl.sum(tl.where(o[:, None] == C - 1, b_matrix, 0.0), axis=0)


@triton.jit
def unit_lower_inverse(b_lower, C: tl.constexpr, PRECISION: tl.constexpr):
    """Return (I + L)⁻¹ for a strictly lower L (3).

    It is solved row by row in blocks of 16; then neighbouring blocks are joined (3'), 16 → 32 → 64.
    """
    BLOCKS: tl.constexpr = C // SOLVE_BLOCK
    o_block = tl.arange(0, BLOCKS)
    o = tl.arange(0, SOLVE_BLOCK)
    m_diagonal = o_block[:, None, None, None] == o_block[None, None, :, None]
    b_grid = tl.reshape(b_lower, [BLOCKS, SOLVE_BLOCK, BLOCKS, SOLVE_BLOCK])
    b_x = -tl.sum(tl.where(m_diagonal, b_grid, 0.0), axis=2)  # [blocks, 16, 16]; rows above `row` are those of the inverse
    for row in range(1, SOLVE_BLOCK):
        m_row = (o == row)[None, :, None]
        b_row = tl.sum(tl.where(m_row, b_x, 0.0), axis=1)  # [blocks, 16], still -L
        b_row += tl.sum(b_row[:, :, None] * b_x, axis=1)
        b_x = tl.where(m_row, b_row[:, None, :], b_x)
    b_x += (o[:, None] == o[None, :]).to(tl.float32)[None, :, :]
    if C > SOLVE_BLOCK:
        PAIRS: tl.constexpr = BLOCKS // 2
        m_pair = (o_block[:, None, None, None] == o_block[None, None, :, None] + 1) & (o_block[:, None, None, None] % 2 == 1)
        b_between = tl.sum(tl.where(m_pair, b_grid, 0.0), axis=2)  # [blocks, 16, 16], zero for the first of a pair
        b_between = tl.sum(tl.reshape(b_between, [PAIRS, 2, SOLVE_BLOCK, SOLVE_BLOCK]), axis=1)
        b_x = _join(b_x, b_between, PAIRS, SOLVE_BLOCK, "ieee")  # [pairs, 32, 32]
    if C > 2 * SOLVE_BLOCK:
        m_corner = (tl.arange(0, 2)[:, None, None, None] == 1) & (tl.arange(0, 2)[None, None, :, None] == 0)
        b_quarters = tl.reshape(b_lower, [2, C // 2, 2, C // 2])
        b_between = tl.sum(tl.sum(tl.where(m_corner, b_quarters, 0.0), axis=2), axis=0)
        b_x = _join(b_x, tl.reshape(b_between, [1, C // 2, C // 2]), 1, C // 2, PRECISION)
    return tl.reshape(b_x, [C, C])


@triton.jit
def _join(b_x, b_between, PAIRS: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    """Join inverses of blocks [2 pairs, size, size] into those of pairs [pairs, 2 size, 2 size]; the corner is -X₂ L₂₁ X₁."""
    b_first, b_second = tl.split(tl.permute(tl.reshape(b_x, [PAIRS, 2, SIZE, SIZE]), [0, 2, 3, 1]))
    if PAIRS == 1:
        b_reach = tl.dot(tl.reshape(b_second, [SIZE, SIZE]), tl.reshape(b_between, [SIZE, SIZE]), input_precision=PRECISION)
        b_corner = tl.dot(b_reach, tl.reshape(b_first, [SIZE, SIZE]), input_precision=PRECISION)
        b_corner = tl.reshape(b_corner, [PAIRS, SIZE, SIZE])
    else:
        b_reach = tl.dot(b_second, b_between, input_precision=PRECISION)
        b_corner = tl.dot(b_reach, b_first, input_precision=PRECISION)
    b_upper = tl.join(b_first, tl.zeros_like(b_first))  # [pairs, size, size, 2]: left and right
    b_lower = tl.join(-b_corner, b_second)
    b_whole = tl.permute(tl.join(b_upper, b_lower), [0, 4, 1, 3, 2])  # [pairs, upper or lower, size, left or right, size]
    return tl.reshape(b_whole, [PAIRS, 2 * SIZE, 2 * SIZE])


@triton.jit
def lower_triangle(C: tl.constexpr):
    """Return Γ for a chunk without gates: ones on and below the diagonal."""
    o = tl.arange(0, C)
    return (o[:, None] >= o[None, :]).to(tl.float32)


@triton.jit
def away_from_zero(b_beta):
    """Return b as A and the backward pass use it, never 0: dv_j = b_j (...) must not vanish, since (10) divides by b_j."""
    return tl.where(tl.abs(b_beta) < SMALLEST_BETA, SMALLEST_BETA, b_beta)


@triton.jit
def met_keys(k, b_k, o_row, m_row, C: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, OPERAND: tl.constexpr):
    """Return k_i·k_j of (3).

    Where keys are nearly equal, A amplifies every rounding error of these products. So float32 keys are multiplied by float32
    multiply-adds: sums in the tensor cores lose bits, however many terms a product is split into.
    """
    if tl.float32 == OPERAND:
        b_met = tl.zeros([C, C], dtype=tl.float32)
        for start in range(0, BK, MEETING_COLUMNS):
            b_columns = load_tile(k, o_row, start + tl.arange(0, MEETING_COLUMNS), m_row, K).to(tl.float32)
            b_met += tl.dot(b_columns, tl.trans(b_columns), input_precision="ieee")
    else:
        b_met = tl.dot(b_k, tl.trans(b_k))
    return b_met


@triton.jit
def chunk_matrices(b_q, b_k, b_met, b_beta, b_decay, C: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """Return A of (3) and P of (4); b_met holds the products of keys."""
    o = tl.arange(0, C)
    b_met = b_met * b_decay * away_from_zero(b_beta)[None, :]
    b_met = tl.where(o[:, None] > o[None, :], b_met, 0.0)
    b_inverse = unit_lower_inverse(b_met, C, PRECISION)
    return b_inverse, product(b_q, tl.trans(b_k), OPERAND, PRECISION) * b_decay


@triton.jit
def beta_gradient(b_beta, b_solved, C: tl.constexpr):
    """Return db_j = E2_jj / b_j (10), from E2_ij = dv_i·x_j."""
    o = tl.arange(0, C)
    return tl.sum(tl.where(o[:, None] == o[None, :], b_solved, 0.0), axis=0) / b_beta


@triton.jit
def pair_gradients(b_beta, b_decay, b_read, b_solved, C: tl.constexpr):
    """Return F1 and F2 of (9), from E1_ij = dy_i·x_j and E2_ij = dv_i·x_j."""
    o = tl.arange(0, C)
    b_scale = b_decay * b_beta[None, :]
    return b_read * b_scale, tl.where(o[:, None] > o[None, :], b_solved * b_scale, 0.0)


@triton.jit
def decay_gradients(b_qt, b_kt, b_beta, b_read, b_solved, C: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """Return D_ij of (11), from E1 and E2; q and k are given as columns, [BK, C]."""
    o = tl.arange(0, C)
    b_qk = product(tl.trans(b_qt), b_kt, OPERAND, PRECISION)
    b_kk = product(tl.trans(b_kt), b_kt, OPERAND, PRECISION)
    b_through = tl.where(o[:, None] >= o[None, :], b_qk * b_read, 0.0) - tl.where(o[:, None] > o[None, :], b_kk * b_solved, 0.0)
    return b_through * b_beta[None, :]


@triton.jit
def gate_gradient(b_g, b_g_after, b_pairs, b_start, o_t, C: tl.constexpr, PRECISION: tl.constexpr):
    """Return dg_t = Σ_{i≥t} Γ_it (Σ_{j<t} D_ij Γ_{t-1,j} + D_i0 Γ_{t-1,0}) (12) for the rows o_t.

    Nothing is divided, so it is right at g_t = 0. b_pairs is D_ij, b_start is D_i0, and b_g_after holds the gate of the next
    row, 1 for the last row.
    """
    o = tl.arange(0, C)
    b_steps = tl.where(o[:, None] > o_t[None, :], b_g[:, None], 1.0)
    b_later = tl.where(o[:, None] >= o_t[None, :], tl.cumprod(b_steps, axis=0), 0.0)  # [i, t] Γ_it
    b_reach = tl.dot(tl.trans(b_later), b_pairs, input_precision=PRECISION)  # [t, j]
    b_reach_start = tl.sum(b_later * b_start[:, None], axis=0)
    b_steps = tl.where(o[None, :] + 1 < o_t[:, None], b_g_after[None, :], 1.0)
    b_before = tl.where(o[None, :] < o_t[:, None], tl.cumprod(b_steps, axis=1, reverse=True), 0.0)  # [t, j] Γ_{t-1,j}
    b_first = tl.sum(tl.where(o[None, :] == 0, b_before * b_g[None, :], 0.0), axis=1)
    b_before_start = tl.where(o_t == 0, 1.0, b_first)  # Γ_{t-1,0}
    return tl.sum(b_reach * b_before, axis=1) + b_reach_start * b_before_start
