# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Delta rule for sequences of at most 64 factors: one launch forward, one launch backward.

A program owns one head of one sequence with all of K and V. It takes the chunks one after the other, with the state in
registers. The backward pass solves the triangular systems again and does not read inverses from memory; only the states between
chunks are kept for it. The last chunk has fewer rows if they hold all that is left: 40 tokens are chunks of 32 and 16 rows,
which two warps hold in registers, where one of 64 rows would spill. Equations: docs/derivations/delta_rule_kernels.md.

CHUNKS per sequence  C rows per chunk, C_LAST in the last one  N factors per token  K key dim  V value dim
BK, BV: K and V up to powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.delta_rule.chunk import (
    away_from_zero,
    chunk_matrices,
    chunk_rows,
    decay_gradients,
    gate_gradient,
    last_row,
    load_gates,
    lower_triangle,
    met_keys,
    pair_gradients,
    solution,
)
from eigentrack.ops.shared.tiles import decay_matrix, load_columns, load_tile, product, store_columns, store_tile, times

GATE_ROWS = tl.constexpr(16)  # rows whose gate gradients are computed at once


@triton.jit
def short_forward_kernel(
    q,
    k,
    v,
    beta,
    gate,
    initial_state,
    y,
    last_state,
    states,
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    C_LAST: tl.constexpr,
    CHUNKS: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    INITIAL: tl.constexpr,
    SAVE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    o_k, o_v = tl.arange(0, BK), tl.arange(0, BV)
    m_k = o_k < K
    token = (pair // heads) * time * heads + pair % heads
    b_state = tl.zeros([BK, BV], dtype=tl.float32)
    if INITIAL:
        b_state += load_tile(initial_state + pair * K * V, o_k, o_v, m_k, V)
    for chunk in tl.static_range(CHUNKS):
        if chunk > 0 and SAVE:
            store_tile(states + (pair * (CHUNKS - 1) + chunk - 1) * K * V, b_state, o_k, o_v, m_k, V)
        first = chunk * (C // N)
        here = token + first * heads
        b_state = _forward_chunk(
            *(q + here * K, k + here * N * K, v + here * N * V, beta + here * N, gate + here if GATED else gate),
            *(y + here * V, b_state, time - first, heads, o_k, o_v),
            *(N, K, V, C if chunk < CHUNKS - 1 else C_LAST, BV, GATED, INITIAL or chunk > 0, OPERAND, PRECISION),
        )
    store_tile(last_state + pair * K * V, b_state, o_k, o_v, m_k, V)


@triton.jit
def _forward_chunk(
    q,
    k,
    v,
    beta,
    gate,
    y,
    b_state,
    tokens,
    heads,
    o_k,
    o_v,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    STATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write y of a chunk and return the state at its end, given the one at its start; STATE is false if that one is zero."""
    o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
    b_k = load_tile(k, o_factor, o_k, m_factor, K)
    b_q = load_tile(q, o_token, o_k, m_last, K)
    b_v = load_tile(v, o_factor, o_v, m_factor, V).to(tl.float32)
    b_beta = tl.load(beta + o_factor, mask=m_factor, other=0.0).to(tl.float32)
    b_decay = lower_triangle(C)
    if GATED:
        b_g = load_gates(gate, tl.arange(0, C), tokens, heads, C, N)
        b_decay = decay_matrix(b_g, C)
    b_met = met_keys(k, b_k, o_factor, m_factor, C, K, o_k.shape[0], OPERAND)
    b_inverse, b_scores = chunk_matrices(b_q, b_k, b_met, b_beta, b_decay, C, OPERAND, PRECISION)
    b_y = tl.zeros([C, BV], dtype=tl.float32)
    if STATE:
        b_stored = product(b_k, b_state, OPERAND, PRECISION)
        b_y += product(b_q, b_state, OPERAND, PRECISION)
        if GATED:
            b_from_start = tl.cumprod(b_g, axis=0)
            b_stored *= b_from_start[:, None]
            b_y *= b_from_start[:, None]
            b_state *= tl.reduce(b_g, 0, times)
        b_v -= b_stored
    b_u = b_beta[:, None] * solution(b_inverse, b_v, OPERAND, PRECISION)  # (5)
    b_y += product(b_scores, b_u, OPERAND, PRECISION)  # (6)
    store_tile(y, b_y, o_token, o_v, m_last, V)
    if GATED:
        b_u *= last_row(b_decay, C)[:, None]
    return b_state + product(tl.trans(b_k), b_u, OPERAND, PRECISION)  # (7)


@triton.jit
def short_backward_kernel(
    q,
    k,
    v,
    beta,
    gate,
    initial_state,
    dy,
    dlast_state,
    dq,
    dk,
    dv,
    dbeta,
    dgate,
    dinitial_state,
    states,
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    C_LAST: tl.constexpr,
    CHUNKS: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    INITIAL: tl.constexpr,
    LAST: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    o_k, o_v = tl.arange(0, BK), tl.arange(0, BV)
    m_k = o_k < K
    token = (pair // heads) * time * heads + pair % heads
    b_dstate = tl.zeros([BK, BV], dtype=tl.float32)
    if LAST:
        b_dstate += load_tile(dlast_state + pair * K * V, o_k, o_v, m_k, V)
    for chunk in tl.static_range(CHUNKS - 1, -1, -1):
        b_state = tl.zeros([BK, BV], dtype=tl.float32)
        if chunk > 0:
            b_state += load_tile(states + (pair * (CHUNKS - 1) + chunk - 1) * K * V, o_k, o_v, m_k, V)
        elif INITIAL:
            b_state += load_tile(initial_state + pair * K * V, o_k, o_v, m_k, V)
        first = chunk * (C // N)
        here = token + first * heads
        b_dstate = _backward_chunk(
            *(q + here * K, k + here * N * K, v + here * N * V, beta + here * N, gate + here if GATED else gate, dy + here * V),
            *(dq + here * K, dk + here * N * K, dv + here * N * V, dbeta + here * N, dgate + here if GATED else dgate),
            *(b_state, b_dstate, time - first, heads, o_k, o_v),
            *(N, K, V, C if chunk < CHUNKS - 1 else C_LAST, GATED, INITIAL or chunk > 0, LAST or chunk < CHUNKS - 1),
            *(OPERAND, PRECISION),
        )
    if INITIAL:
        store_tile(dinitial_state + pair * K * V, b_dstate, o_k, o_v, m_k, V)


@triton.jit
def _backward_chunk(
    q,
    k,
    v,
    beta,
    gate,
    dy,
    dq,
    dk,
    dv,
    dbeta,
    dgate,
    b_state,
    b_dlast,
    tokens,
    heads,
    o_k,
    o_v,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    GATED: tl.constexpr,
    STATE: tl.constexpr,
    LAST: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the gradients of a chunk and return that of the state at its start, given that of the state at its end.

    STATE is false if the state at the chunk's start is zero, LAST if the gradient of the state at its end is zero.
    """
    o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
    b_kt = load_columns(k, o_factor, o_k, m_factor, K)
    b_qt = load_columns(q, o_token, o_k, m_last, K)
    b_k, b_q = tl.trans(b_kt), tl.trans(b_qt)
    b_beta = away_from_zero(tl.load(beta + o_factor, mask=m_factor, other=0.0).to(tl.float32))
    b_decay = lower_triangle(C)
    b_from_start = tl.full([C], 1.0, dtype=tl.float32)
    b_to_end = b_from_start
    if GATED:
        b_g = load_gates(gate, tl.arange(0, C), tokens, heads, C, N)
        b_decay = decay_matrix(b_g, C)
        b_from_start = tl.cumprod(b_g, axis=0)
        b_to_end = last_row(b_decay, C)
    b_met = met_keys(k, b_k, o_factor, m_factor, C, K, o_k.shape[0], OPERAND)
    b_inverse, b_scores = chunk_matrices(b_q, b_k, b_met, b_beta, b_decay, C, OPERAND, PRECISION)

    b_x = load_tile(v, o_factor, o_v, m_factor, V).to(tl.float32)
    b_dy = load_tile(dy, o_token, o_v, m_last, V)
    b_du = product(tl.trans(b_scores), b_dy, OPERAND, PRECISION)
    if STATE:
        b_x -= b_from_start[:, None] * product(b_k, b_state, OPERAND, PRECISION)
    b_x = solution(b_inverse, b_x, OPERAND, PRECISION)  # (5)
    if LAST:
        b_du += b_to_end[:, None] * product(b_k, b_dlast, OPERAND, PRECISION)
    b_dv = solution(tl.trans(b_inverse), b_beta[:, None] * b_du, OPERAND, PRECISION)  # (8)
    store_tile(dv, b_dv, o_factor, o_v, m_factor, V)

    b_xt = tl.trans(b_x)
    b_read = product(b_dy, b_xt, OPERAND, PRECISION)
    b_solved = product(b_dv, b_xt, OPERAND, PRECISION)
    b_dbeta = tl.sum(b_dv * b_x, axis=1) / b_beta  # (10), in float32
    tl.store(dbeta + o_factor, b_dbeta.to(dbeta.dtype.element_ty), mask=m_factor)
    b_f1, b_f2 = pair_gradients(b_beta, b_decay, b_read, b_solved, C)
    b_dqt = product(b_kt, tl.trans(b_f1), OPERAND, PRECISION)  # (9)
    b_dkt = product(b_qt, b_f1, OPERAND, PRECISION) - product(b_kt, b_f2 + tl.trans(b_f2), OPERAND, PRECISION)
    b_dstate = b_dlast
    o_c = tl.arange(0, C)
    b_start = tl.zeros([C], dtype=tl.float32)
    if GATED:
        b_pairs = decay_gradients(b_qt, b_kt, b_beta, b_read, b_solved, C, OPERAND, PRECISION)
    if LAST:
        b_stored = product(b_dlast, b_xt, OPERAND, PRECISION)
        b_dkt += b_stored * (b_beta * b_to_end)[None, :]
        if GATED:
            b_of_state = b_beta * tl.sum(b_kt * b_stored, axis=0)
            b_pairs += tl.where(o_c[:, None] == C - 1, b_of_state[None, :], 0.0)
    if STATE:
        b_queried = product(b_state, tl.trans(b_dy), OPERAND, PRECISION)
        b_erased = product(b_state, tl.trans(b_dv), OPERAND, PRECISION)
        b_start += tl.sum(b_qt * b_queried - b_kt * b_erased, axis=0)
        b_dqt += b_queried * b_from_start[None, :]
        b_dkt -= b_erased * b_from_start[None, :]
        b_dstate = product(b_qt, b_from_start[:, None] * b_dy, OPERAND, PRECISION)
        b_dstate -= product(b_kt, b_from_start[:, None] * b_dv, OPERAND, PRECISION)  # (8')
        if LAST:
            kept = b_dlast
            if GATED:
                kept *= tl.reduce(b_g, 0, times)
                b_start += tl.where(o_c == C - 1, tl.sum(b_state * b_dlast), 0.0)
            b_dstate += kept
    store_columns(dq, b_dqt, o_token, o_k, m_last, K)
    store_columns(dk, b_dkt, o_factor, o_k, m_factor, K)
    if GATED:
        b_g_after = load_gates(gate, o_c + 1, tokens, heads, C, N)
        for t_start in tl.static_range(0, C, GATE_ROWS):
            o_t = t_start + tl.arange(0, GATE_ROWS)
            b_dg = gate_gradient(b_g, b_g_after, b_pairs, b_start, o_t, C, PRECISION)  # (12)
            m_gate = (o_t % N == 0) & (o_t // N < tokens) & (o_t < (C // N) * N)
            tl.store(dgate + o_t // N * heads, b_dg.to(dgate.dtype.element_ty), mask=m_gate)
    return b_dstate
