# mypy: disable-error-code="no-untyped-def, import-untyped"
"""One gate a head: the gradients of q, k and a, over all chunks at once.

    dq_i = Σ_{j≤i} G_ij Γ_ij k_j + Γ_i0 Y_i,    dk_j = Σ_{i≥j} G_ij Γ_ij q_i + Γ_Cj X_j      (9)
    D_ij = G_ij (q_i·k_j), the gradient of Γ_ij                                              (10)
    da_t = Σ_{i≥t} Γ_it (Σ_{j<t} D_ij Γ_{t-1,j} + D_i0 Γ_{t-1,0})                            (11)

with G_ij = dy_i·v_j, Y_i = S dy_i, X_j = dS' v_j. Columns of q and k are built, [BK, C]: then the left operand of every product
is a tile from memory, or has 32 rows. Equations: docs/derivations/gated_linear.md.

C tokens a chunk  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.kernels.delta_rule_chunk import decay_matrix, gate_gradient, load_columns, load_tile, product, store_columns
from eigentrack.kernels.delta_rule_forward import locate_chunk
from eigentrack.kernels.gated_linear_decay import from_start, load_gates, to_end


@triton.jit
def head_gate(a, o_token, tokens, heads, C: tl.constexpr):
    """One gate a token, [C]."""
    return tl.reshape(load_gates(a, o_token, tl.arange(0, 1), tokens, heads, 1), [C])


@triton.jit
def store_gate_gradient(
    da, a, b_pairs, b_start, tokens, heads, C: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr
):
    """(11), ROWS tokens at a time."""
    o_c = tl.arange(0, C)
    b_a = head_gate(a, o_c, tokens, heads, C)
    b_after = head_gate(a, o_c + 1, tokens, heads, C)
    for t_start in tl.static_range(0, C, ROWS):
        o_t = t_start + tl.arange(0, ROWS)
        b_da = gate_gradient(b_a, b_after, b_pairs, b_start, o_t, C, PRECISION)
        tl.store(da + o_t * heads, b_da.to(da.dtype.element_ty), mask=o_t < tokens)


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
    ROWS: tl.constexpr,
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
        b_met = tl.zeros([C, C], dtype=tl.float32)
        for v_start in range(0, V, BV):
            o_v = v_start + tl.arange(0, BV)
            b_dy = load_tile(dy + token * V, o_c * heads, o_v, m_row, V)
            b_vt = load_columns(v + token * V, o_c * heads, o_v, m_row, V)
            b_met += product(b_dy, b_vt, OPERAND, PRECISION)  # G
        b_met = tl.where(o_c[:, None] >= o_c[None, :], b_met, 0.0)
        b_decayed = b_met * decay_matrix(head_gate(a + token, o_c, tokens, heads, C), C)
        b_pairs = tl.zeros([C, C], dtype=tl.float32)
        b_start = tl.zeros([C], dtype=tl.float32)
        for k_start in range(0, K, BK):
            o_k = k_start + tl.arange(0, BK)
            m_k = o_k < K
            b_q = load_tile(q + token * K, o_c * heads, o_k, m_row, K)
            b_qt = load_columns(q + token * K, o_c * heads, o_k, m_row, K)
            b_kt = load_columns(k + token * K, o_c * heads, o_k, m_row, K)
            b_pairs += product(b_q, b_kt, OPERAND, PRECISION) * b_met  # (10)
            b_dqt = product(b_kt, tl.trans(b_decayed), OPERAND, PRECISION)
            b_dkt = product(b_qt, b_decayed, OPERAND, PRECISION)
            b_queried = tl.zeros([BK, C], dtype=tl.float32)
            b_stored = tl.zeros([BK, C], dtype=tl.float32)
            kept = 0.0
            for v_start in range(0, V, BV):
                o_v = v_start + tl.arange(0, BV)
                if STATE:
                    b_state = load_tile(states + place * K * V, o_k, o_v, m_k, V)
                    b_dyt = load_columns(dy + token * V, o_c * heads, o_v, m_row, V)
                    b_queried += product(b_state, b_dyt, OPERAND, PRECISION)
                if DSTATE:
                    b_dstate = load_tile(dstates + place * K * V, o_k, o_v, m_k, V)
                    b_vt = load_columns(v + token * V, o_c * heads, o_v, m_row, V)
                    b_stored += product(b_dstate, b_vt, OPERAND, PRECISION)
                    if STATE:
                        kept += tl.sum(b_state.to(tl.float32) * b_dstate.to(tl.float32))
            if STATE:
                b_start += tl.sum(b_qt * b_queried, axis=0) + tl.where(o_c == C - 1, kept, 0.0)
                b_gates = load_gates(a + token, o_c, tl.arange(0, 1), tokens, heads, 1)
                b_dqt += b_queried * from_start(b_gates)
            if DSTATE:
                b_pairs += tl.where(o_c[:, None] == C - 1, tl.sum(b_kt * b_stored, axis=0)[None, :], 0.0)
                b_gates = load_gates(a + token, o_c + 1, tl.arange(0, 1), tokens, heads, 1)
                b_dkt += b_stored * to_end(b_gates)
            store_columns(dq + token * K, b_dqt, o_c * heads, o_k, m_row, K)
            store_columns(dk + token * K, b_dkt, o_c * heads, o_k, m_row, K)
        store_gate_gradient(da + token, a + token, b_pairs, b_start, tokens, heads, C, ROWS, PRECISION)
