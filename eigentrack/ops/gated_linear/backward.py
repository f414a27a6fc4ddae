# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Gradients of q, k and a with one gate per head, for all chunks at once.

    dq_i = Σ_{j≤i} G_ij Γ_ij k_j + Γ_i0 Y_i,    dk_j = Σ_{i≥j} G_ij Γ_ij q_i + Γ_Cj X_j      (9)
    D_ij = G_ij (q_i·k_j), the gradient of Γ_ij                                              (10)
    da from D, by blocks that halve from C to 1                                              (11), (12)

with G_ij = dy_i·v_j, Y_i = S dy_i, X_j = dS' v_j. The gradients of q and k are built as columns, [BK, C], so that the left
operand of every product is a tile from memory. Equations: docs/derivations/gated_linear.md.

C tokens per chunk  K key dim  V value dim  BK, BV blocks of K and V, powers of two
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
    load_gates,
    to_end,
)
from eigentrack.ops.shared.tiles import decay_matrix, load_columns, load_tile, locate_chunk, product, store_columns

EQUAL_CHANNELS = tl.constexpr(16)  # copies of a head's gate, to fill the threads


@triton.jit
def pair_products(
    left,
    right,
    m_row,
    heads,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return left_i · right_j for all pairs of tokens of a chunk."""
    o_c = tl.arange(0, C)
    b_met = tl.zeros([C, C], dtype=tl.float32)
    for start in range(0, WIDTH, BLOCK):
        o = start + tl.arange(0, BLOCK)
        b_left = load_tile(left, o_c * heads, o, m_row, WIDTH)
        b_right = load_columns(right, o_c * heads, o, m_row, WIDTH)
        b_met += product(b_left, b_right, OPERAND, PRECISION)
    return b_met


@triton.jit
def gate_gradient(b_a, b_after, b_pairs, b_start, b_last, LEVELS: tl.constexpr, C: tl.constexpr):
    """Return da, from D_ij, D_i0 and D_Cj (11), (12): as for one gate per channel, with 16 equal channels."""
    b_a = tl.broadcast_to(b_a[None, :], [EQUAL_CHANNELS, C])
    b_after = tl.broadcast_to(b_after[None, :], [EQUAL_CHANNELS, C])
    b_df = tl.broadcast_to(b_start[None, :], [EQUAL_CHANNELS, C])
    b_de = tl.broadcast_to(b_last[None, :], [EQUAL_CHANNELS, C])
    for step in tl.static_range(LEVELS):
        b_f = block_from_start(b_a, 2 ** (LEVELS - 1 - step), C, EQUAL_CHANNELS)
        b_e = block_to_end(b_after, 2 ** (LEVELS - 1 - step), C, EQUAL_CHANNELS)
        b_df, b_de = hand_down(b_df, b_de, b_f, b_e, 2 ** (LEVELS - 1 - step), C, EQUAL_CHANNELS)
        b_met = tl.where(across(2 ** (LEVELS - 1 - step), C), b_pairs, 0.0)
        b_df += tl.sum(b_met * tl.max(b_e, axis=0)[None, :], axis=1)[None, :]
        b_de += tl.sum(b_met * tl.max(b_f, axis=0)[:, None], axis=0)[None, :]
    return tl.max(b_df, axis=0)


@triton.jit
def gradients_kernel(
    q,
    k,
    v,
    a,
    states,
    dy,
    dstates,
    dq,
    dk,
    da,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    LEVELS: tl.constexpr,
    PACKED: tl.constexpr,
    STATE: tl.constexpr,
    DSTATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    slot, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, 1, PACKED)
    if tokens > 0:
        o_c = tl.arange(0, C)
        m_row = o_c < tokens
        token = first * heads + head
        place = tl.program_id(0).to(tl.int64)
        b_a = load_gates(a + token, o_c, o_c, tokens, heads, K, False)
        b_after = load_gates(a + token, o_c + 1, o_c, tokens, heads, K, False)
        b_decayed = pair_products(dy + token * V, v + token * V, m_row, heads, V, C, BV, OPERAND, PRECISION) * decay_matrix(
            b_a, C
        )
        b_start = tl.zeros([C], dtype=tl.float32)
        b_last = tl.zeros([C], dtype=tl.float32)
        for k_start in range(0, K, BK):
            o_k = k_start + tl.arange(0, BK)
            m_k = o_k < K
            b_kt = load_columns(k + token * K, o_c * heads, o_k, m_row, K)
            b_dqt = tl.zeros([BK, C], dtype=tl.float32)
            if STATE:
                kept = 0.0
                for v_start in range(0, V, BV):
                    o_v = v_start + tl.arange(0, BV)
                    b_dyt = load_columns(dy + token * V, o_c * heads, o_v, m_row, V)
                    b_state = load_tile(states + place * K * V, o_k, o_v, m_k, V)
                    b_dqt += product(b_state, b_dyt, OPERAND, PRECISION)  # Y
                    if DSTATE:
                        b_dstate = load_tile(dstates + place * K * V, o_k, o_v, m_k, V)
                        kept += tl.sum(b_state.to(tl.float32) * b_dstate.to(tl.float32))
                b_qt = load_columns(q + token * K, o_c * heads, o_k, m_row, K)
                b_start += tl.sum(b_qt * b_dqt, axis=0) + tl.where(o_c == C - 1, kept, 0.0)
                b_dqt *= from_start(b_a, False)
            b_dqt += product(b_kt, tl.trans(b_decayed), OPERAND, PRECISION)
            store_columns(dq + token * K, b_dqt, o_c * heads, o_k, m_row, K)

            b_dkt = tl.zeros([BK, C], dtype=tl.float32)
            if DSTATE:
                for v_start in range(0, V, BV):
                    o_v = v_start + tl.arange(0, BV)
                    b_vt = load_columns(v + token * V, o_c * heads, o_v, m_row, V)
                    b_dstate = load_tile(dstates + place * K * V, o_k, o_v, m_k, V)
                    b_dkt += product(b_dstate, b_vt, OPERAND, PRECISION)  # X
                b_last += tl.sum(b_kt * b_dkt, axis=0)
                b_dkt *= to_end(b_after, False)
            b_qt = load_columns(q + token * K, o_c * heads, o_k, m_row, K)
            b_dkt += product(b_qt, b_decayed, OPERAND, PRECISION)
            store_columns(dk + token * K, b_dkt, o_c * heads, o_k, m_row, K)
        # computed again and not held, since registers are scarce in this kernel
        b_pairs = pair_products(dy + token * V, v + token * V, m_row, heads, V, C, BV, OPERAND, PRECISION)
        b_pairs *= pair_products(q + token * K, k + token * K, m_row, heads, K, C, BK, OPERAND, PRECISION)  # (10)
        b_da = gate_gradient(b_a, b_after, b_pairs, b_start, b_last, LEVELS, C)
        tl.store(da + token + o_c * heads, b_da.to(da.dtype.element_ty), mask=m_row)
