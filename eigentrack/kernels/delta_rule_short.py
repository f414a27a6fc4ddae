# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Delta rule for sequences that fit into one chunk: one launch forward, one launch backward, nothing kept in between.

A program owns one head of one sequence with all of K and V; the backward pass solves the triangular system again rather
than to read its inverse from memory. The equations are those of the long form with a single chunk: S is the initial state,
S' the last. Equations: docs/derivations/delta_rule_kernels.md.

C rows a chunk  N factors a token  K key dim  V value dim  BK, BV: K and V rounded up to powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.kernels.delta_rule_chunk import (
    chunk_matrices,
    chunk_rows,
    decay_matrix,
    gate_gradient,
    last_row,
    load_columns,
    load_gates,
    load_tile,
    lower_triangle,
    pair_gradients,
    product,
    store_columns,
    store_tile,
)

GATE_ROWS = tl.constexpr(16)


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
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    INITIAL: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    o_k, o_v = tl.arange(0, BK), tl.arange(0, BV)
    m_k = o_k < K
    o_factor, o_token, m_factor, m_last = chunk_rows(time, heads, C, N)
    token = (pair // heads) * time * heads + pair % heads
    b_k = load_tile(k + token * N * K, o_factor, o_k, m_factor, K)
    b_q = load_tile(q + token * K, o_token, o_k, m_last, K)
    b_v = load_tile(v + token * N * V, o_factor, o_v, m_factor, V).to(tl.float32)
    b_beta = tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32)
    b_decay = lower_triangle(C)
    if GATED:
        b_g = load_gates(gate + token, tl.arange(0, C), time, heads, C, N)
        b_decay = decay_matrix(b_g, C)
    b_inverse, b_scores = chunk_matrices(b_q, b_k, b_beta, b_decay, C, OPERAND, PRECISION)
    b_y = tl.zeros([C, BV], dtype=tl.float32)
    b_kept = tl.zeros([BK, BV], dtype=tl.float32)
    if INITIAL:
        b_kept += load_tile(initial_state + pair * K * V, o_k, o_v, m_k, V)
        b_stored = product(b_k, b_kept, OPERAND, PRECISION)
        b_y += product(b_q, b_kept, OPERAND, PRECISION)
        if GATED:
            b_from_start = tl.cumprod(b_g, axis=0)
            b_stored *= b_from_start[:, None]
            b_y *= b_from_start[:, None]
            b_kept *= tl.reduce(b_g, 0, _times)
        b_v -= b_stored
    b_u = b_beta[:, None] * product(b_inverse, b_v, OPERAND, PRECISION)  # (5)
    b_y += product(b_scores, b_u, OPERAND, PRECISION)  # (6)
    store_tile(y + token * V, b_y, o_token, o_v, m_last, V)
    if GATED:
        b_u *= last_row(b_decay, C)[:, None]
    b_kept += product(tl.trans(b_k), b_u, OPERAND, PRECISION)  # (7)
    store_tile(last_state + pair * K * V, b_kept, o_k, o_v, m_k, V)


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
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
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
    o_factor, o_token, m_factor, m_last = chunk_rows(time, heads, C, N)
    token = (pair // heads) * time * heads + pair % heads
    b_kt = load_columns(k + token * N * K, o_factor, o_k, m_factor, K)
    b_qt = load_columns(q + token * K, o_token, o_k, m_last, K)
    b_k, b_q = tl.trans(b_kt), tl.trans(b_qt)
    b_beta = tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32)
    b_decay = lower_triangle(C)
    b_from_start = tl.full([C], 1.0, dtype=tl.float32)
    b_to_end = b_from_start
    if GATED:
        b_g = load_gates(gate + token, tl.arange(0, C), time, heads, C, N)
        b_decay = decay_matrix(b_g, C)
        b_from_start = tl.cumprod(b_g, axis=0)
        b_to_end = last_row(b_decay, C)
    b_inverse, b_scores = chunk_matrices(b_q, b_k, b_beta, b_decay, C, OPERAND, PRECISION)

    b_x = load_tile(v + token * N * V, o_factor, o_v, m_factor, V).to(tl.float32)
    b_dy = load_tile(dy + token * V, o_token, o_v, m_last, V)
    b_du = product(tl.trans(b_scores), b_dy, OPERAND, PRECISION)
    if INITIAL:
        b_state = load_tile(initial_state + pair * K * V, o_k, o_v, m_k, V)
        b_x -= b_from_start[:, None] * product(b_k, b_state, OPERAND, PRECISION)
    b_x = product(b_inverse, b_x, OPERAND, PRECISION)  # (5)
    if LAST:
        b_dlast = load_tile(dlast_state + pair * K * V, o_k, o_v, m_k, V)
        b_du += b_to_end[:, None] * product(b_k, b_dlast, OPERAND, PRECISION)
    b_dv = product(tl.trans(b_inverse), b_beta[:, None] * b_du, OPERAND, PRECISION)  # (8)
    store_tile(dv + token * N * V, b_dv, o_factor, o_v, m_factor, V)

    b_xt = tl.trans(b_x)
    b_read = product(b_dy, b_xt, OPERAND, PRECISION)
    b_solved = product(b_dv, b_xt, OPERAND, PRECISION)
    b_f1, b_f2, b_through = pair_gradients(b_qt, b_kt, b_beta, b_decay, b_read, b_solved, C, OPERAND, PRECISION)
    b_dbeta = tl.sum(b_through * b_decay, axis=0)
    b_dqt = product(b_kt, tl.trans(b_f1), OPERAND, PRECISION)  # (9)
    b_dkt = product(b_qt, b_f1, OPERAND, PRECISION) - product(b_kt, b_f2 + tl.trans(b_f2), OPERAND, PRECISION)
    o_c = tl.arange(0, C)
    b_pairs = b_through * b_beta[None, :]
    b_start = tl.zeros([C], dtype=tl.float32)
    if LAST:
        b_stored = product(b_dlast, b_xt, OPERAND, PRECISION)
        b_of_state = tl.sum(b_kt * b_stored, axis=0)
        b_dkt += b_stored * (b_beta * b_to_end)[None, :]
        b_dbeta += b_to_end * b_of_state
        b_pairs += tl.where(o_c[:, None] == C - 1, (b_beta * b_of_state)[None, :], 0.0)
    if INITIAL:
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
                kept *= tl.reduce(b_g, 0, _times)
                b_start += tl.where(o_c == C - 1, tl.sum(b_state * b_dlast), 0.0)
            b_dstate += kept
        store_tile(dinitial_state + pair * K * V, b_dstate, o_k, o_v, m_k, V)
    store_columns(dq + token * K, b_dqt, o_token, o_k, m_last, K)
    store_columns(dk + token * N * K, b_dkt, o_factor, o_k, m_factor, K)
    tl.store(dbeta + token * N + o_factor, b_dbeta.to(dbeta.dtype.element_ty), mask=m_factor)
    if GATED:
        b_g_after = load_gates(gate + token, o_c + 1, time, heads, C, N)
        for t_start in tl.static_range(0, C, GATE_ROWS):
            o_t = t_start + tl.arange(0, GATE_ROWS)
            b_dg = gate_gradient(b_g, b_g_after, b_pairs, b_start, o_t, C, PRECISION)  # (12)
            m_gate = (o_t % N == 0) & (o_t // N < time)
            tl.store(dgate + token + o_t // N * heads, b_dg.to(dgate.dtype.element_ty), mask=m_gate)


@triton.jit
def _times(left, right):
    return left * right
