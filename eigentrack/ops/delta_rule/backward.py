# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Delta rule, backward, for sequences of any length. Two launches, three with a gate:

    walk_back    against time:         dv = Aᵀ b (Pᵀ dy + Γ_Cj k dS')  (8),   dS = Γ_C0 dS' + (Γ_i0 q)ᵀ dy - (Γ_i0 k)ᵀ dv  (8')
    gradients    all chunks at once:   dq, dk, db (9), (10) from x, dv and the states at both ends of the chunk, and D of (11)
    gates        all chunks at once:   dg (12)

Equations: docs/derivations/delta_rule_kernels.md.

S state  C rows per chunk  N factors per token  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.delta_rule.chunk import (
    away_from_zero,
    beta_gradient,
    chunk_rows,
    decay_gradients,
    gate_gradient,
    last_row,
    load_gates,
    lower_triangle,
    pair_gradients,
    solution,
)
from eigentrack.ops.shared.tiles import (
    decay_matrix,
    load_columns,
    load_tile,
    locate_chunk,
    locate_sequence,
    product,
    store_columns,
    store_tile,
)


# `time` is not specialised: compiled for a time of 1, the loop over chunks vanishes, and its products were wrong on Hopper
@triton.jit(do_not_specialize=["time"])
def walk_back_kernel(
    q,
    k,
    beta,
    inverse,
    scores,
    from_start,
    to_end,
    dy,
    dlast_state,
    dv,
    dstates,
    dinitial_state,
    bounds,
    chunk_starts,
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    PACKED: tl.constexpr,
    INITIAL: tl.constexpr,
    LAST: tl.constexpr,
    DSTATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write dv and the gradients of the states, along the chunks of one head of one sequence, against time.

    DSTATE is false if there is a single chunk, which ends in a state without a gradient.
    """
    BLOCKS: tl.constexpr = (V + BV - 1) // BV
    pair = tl.program_id(0) // BLOCKS
    sequence, head = pair // heads, pair % heads
    o_v = (tl.program_id(0) % BLOCKS) * BV + tl.arange(0, BV)
    o_k = tl.arange(0, BK)
    o_c = tl.arange(0, C)
    m_k, m_all = o_k < K, o_c < C
    start, length, slot = locate_sequence(sequence, bounds, chunk_starts, time, C, N, PACKED)

    b_dstate = tl.zeros([BK, BV], dtype=tl.float32)
    if LAST:
        b_dstate += load_tile(dlast_state + pair.to(tl.int64) * K * V, o_k, o_v, m_k, V)
    chunks = tl.cdiv(length, C // N)
    for step in range(chunks):
        chunk = chunks - 1 - step
        tokens = length - chunk * (C // N)
        o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
        token = (start + chunk * (C // N)) * heads + head
        place = (slot + chunk) * heads + head
        b_k = load_tile(k + token * N * K, o_factor, o_k, m_factor, K)
        b_q = load_tile(q + token * K, o_token, o_k, m_last, K)
        b_dy = load_tile(dy + token * V, o_token, o_v, m_last, V)
        b_beta = away_from_zero(tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32))
        b_inverse = load_tile(inverse + place * C * C, o_c, o_c, m_all, C)
        b_scores = load_tile(scores + place * C * C, o_c, o_c, m_all, C)
        b_du = product(tl.trans(b_scores), b_dy, OPERAND, PRECISION)
        if DSTATE:
            store_tile(dstates + place * K * V, b_dstate, o_k, o_v, m_k, V)
            b_of_state = product(b_k, b_dstate, OPERAND, PRECISION)
            if GATED:
                b_of_state *= tl.load(to_end + place * C + o_c)[:, None]
            b_du += b_of_state
        b_dv = solution(tl.trans(b_inverse), b_beta[:, None] * b_du, OPERAND, PRECISION)  # (8)
        store_tile(dv + token * N * V, b_dv, o_factor, o_v, m_factor, V)
        if GATED:
            b_from_start = tl.load(from_start + place * C + o_c)
            b_dstate *= tl.load(from_start + place * C + C - 1)
            b_dstate += product(tl.trans(b_q), b_from_start[:, None] * b_dy, OPERAND, PRECISION)
            b_dstate -= product(tl.trans(b_k), b_from_start[:, None] * b_dv, OPERAND, PRECISION)  # (8')
        else:
            b_dstate += product(tl.trans(b_q), b_dy, OPERAND, PRECISION)
            b_dstate -= product(tl.trans(b_k), b_dv, OPERAND, PRECISION)
    if INITIAL:
        store_tile(dinitial_state + pair.to(tl.int64) * K * V, b_dstate, o_k, o_v, m_k, V)


@triton.jit
def gradients_kernel(
    q,
    k,
    beta,
    gate,
    errors,
    states,
    dy,
    dv,
    dstates,
    dq,
    dk,
    dbeta,
    dpairs,
    dstart,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    PACKED: tl.constexpr,
    STATE: tl.constexpr,
    DSTATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the gradients of q, k and b for one chunk of one head, and D of (11) if GATED.

    The gradients of q and k are built as columns, [BK, C], so that the left operand of every product is a tile from memory: the
    assembler of CUDA before 13.3 may overwrite a left operand in registers while the tensor cores still read it.
    """
    slot, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, N, PACKED)
    if tokens > 0:
        o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
        o_c, o_k = tl.arange(0, C), tl.arange(0, BK)
        m_k = o_k < K
        token = first * heads + head
        place = tl.program_id(0).to(tl.int64)
        b_read = tl.zeros([C, C], dtype=tl.float32)
        b_solved = tl.zeros([C, C], dtype=tl.float32)
        b_dkt = tl.zeros([BK, C], dtype=tl.float32)
        for v_start in range(0, V, BV):
            o_v = v_start + tl.arange(0, BV)
            b_xt = load_columns(errors + token * N * V, o_factor, o_v, m_factor, V)
            b_dy = load_tile(dy + token * V, o_token, o_v, m_last, V)
            b_dv = load_tile(dv + token * N * V, o_factor, o_v, m_factor, V)
            b_read += product(b_dy, b_xt, OPERAND, PRECISION)
            b_solved += product(b_dv, b_xt, OPERAND, PRECISION)
            if DSTATE:
                b_dstate = load_tile(dstates + place * K * V, o_k, o_v, m_k, V)
                b_dkt += product(b_dstate, b_xt, OPERAND, PRECISION)  # Xᵀ
        b_beta = away_from_zero(tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32))
        b_dbeta = beta_gradient(b_beta, b_solved, C)  # (10)
        tl.store(dbeta + token * N + o_factor, b_dbeta.to(dbeta.dtype.element_ty), mask=m_factor)
        b_kt = load_columns(k + token * N * K, o_factor, o_k, m_factor, K)
        b_qt = load_columns(q + token * K, o_token, o_k, m_last, K)
        b_decay = lower_triangle(C)
        b_to_end = tl.full([C], 1.0, dtype=tl.float32)
        b_from_start = b_to_end
        if GATED:
            b_of_state = b_beta * tl.sum(b_kt * b_dkt, axis=0)  # b_j k_j · X_j
            b_pairs = decay_gradients(b_qt, b_kt, b_beta, b_read, b_solved, C, OPERAND, PRECISION)
            b_pairs += tl.where(o_c[:, None] == C - 1, b_of_state[None, :], 0.0)
            store_tile(dpairs + place * C * C, b_pairs, o_c, o_c, o_c < C, C)
            b_g = load_gates(gate + token, o_c, tokens, heads, C, N)
            b_decay = decay_matrix(b_g, C)
            b_from_start = tl.cumprod(b_g, axis=0)
            b_to_end = last_row(b_decay, C)
        b_f1, b_f2 = pair_gradients(b_beta, b_decay, b_read, b_solved, C)
        b_dqt = product(b_kt, tl.trans(b_f1), OPERAND, PRECISION)
        b_dkt *= (b_beta * b_to_end)[None, :]
        b_dkt += product(b_qt, b_f1, OPERAND, PRECISION)
        b_dkt -= product(b_kt, b_f2 + tl.trans(b_f2), OPERAND, PRECISION)
        if GATED:
            b_start = tl.zeros([C], dtype=tl.float32)
            if STATE:
                b_queried = tl.zeros([BK, C], dtype=tl.float32)
                b_erased = tl.zeros([BK, C], dtype=tl.float32)
                for v_start in range(0, V, BV):
                    o_v = v_start + tl.arange(0, BV)
                    b_dyt = load_columns(dy + token * V, o_token, o_v, m_last, V)
                    b_dvt = load_columns(dv + token * N * V, o_factor, o_v, m_factor, V)
                    b_state = load_tile(states + place * K * V, o_k, o_v, m_k, V)
                    b_queried += product(b_state, b_dyt, OPERAND, PRECISION)  # Yᵀ
                    b_erased += product(b_state, b_dvt, OPERAND, PRECISION)  # Zᵀ
                    if DSTATE:
                        b_dstate = load_tile(dstates + place * K * V, o_k, o_v, m_k, V)
                        kept = tl.sum(b_state.to(tl.float32) * b_dstate.to(tl.float32))
                        b_start += tl.where(o_c == C - 1, kept, 0.0)
                b_start += tl.sum(b_qt * b_queried - b_kt * b_erased, axis=0)
                b_dqt += b_queried * b_from_start[None, :]
                b_dkt -= b_erased * b_from_start[None, :]
            tl.store(dstart + place * C + o_c, b_start)  # D_i0
        elif STATE:
            for v_start in range(0, V, BV):
                o_v = v_start + tl.arange(0, BV)
                b_dyt = load_columns(dy + token * V, o_token, o_v, m_last, V)
                b_dvt = load_columns(dv + token * N * V, o_factor, o_v, m_factor, V)
                b_state = load_tile(states + place * K * V, o_k, o_v, m_k, V)
                b_dqt += product(b_state, b_dyt, OPERAND, PRECISION)
                b_dkt -= product(b_state, b_dvt, OPERAND, PRECISION)
        store_columns(dq + token * K, b_dqt, o_token, o_k, m_last, K)
        store_columns(dk + token * N * K, b_dkt, o_factor, o_k, m_factor, K)


@triton.jit
def gates_kernel(
    gate,
    dpairs,
    dstart,
    dgate,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    N: tl.constexpr,
    C: tl.constexpr,
    BT: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the gradients of the gates for BT rows of a chunk.

    BT is 32: products with 32 rows on the left use older instructions of the tensor cores, which are safe.
    """
    PARTS: tl.constexpr = C // BT
    pair = tl.program_id(0) // PARTS
    slot, head = pair // heads, pair % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, N, PACKED)
    if tokens > 0:
        o_c = tl.arange(0, C)
        o_t = (tl.program_id(0) % PARTS) * BT + tl.arange(0, BT)
        token = first * heads + head
        place = pair.to(tl.int64)
        b_pairs = load_tile(dpairs + place * C * C, o_c, o_c, o_c < C, C)
        b_start = tl.load(dstart + place * C + o_c)
        b_g = load_gates(gate + token, o_c, tokens, heads, C, N)
        b_g_after = load_gates(gate + token, o_c + 1, tokens, heads, C, N)
        b_dg = gate_gradient(b_g, b_g_after, b_pairs, b_start, o_t, C, PRECISION)
        m_first = (o_t % N == 0) & (o_t // N < tokens) & (o_t < (C // N) * N)
        tl.store(dgate + token + o_t // N * heads, b_dg.to(dgate.dtype.element_ty), mask=m_first)
