# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Gated linear attention for sequences that fit into one chunk: one launch forward, one backward, nothing saved in between.

A program owns one head of one sequence with all of K and V. The equations are those of the long form with a single chunk: S is
the initial state, S' the last. Equations: docs/derivations/gated_linear.md.

C tokens per chunk, 2^LEVELS  K key dim  V value dim  BK, BV: K and V rounded up to powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.gated_linear.backward import gate_gradient
from eigentrack.ops.gated_linear.channel_tiles import channel_gradients, channel_scores
from eigentrack.ops.gated_linear.gates import column, decay_columns, from_start, load_gates, to_end
from eigentrack.ops.shared.tiles import decay_matrix, load_columns, load_tile, product, store_columns


@triton.jit
def short_forward_kernel(
    q,
    k,
    v,
    a,
    initial_state,
    y,
    last_state,
    time,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    LEVELS: tl.constexpr,
    CHANNEL: tl.constexpr,
    INITIAL: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    GATES: tl.constexpr = K if CHANNEL else 1
    pair = tl.program_id(0).to(tl.int64)
    o_k, o_v, o_c = tl.arange(0, BK), tl.arange(0, BV), tl.arange(0, C)
    m_k, m_row = o_k < K, o_c < time
    token = (pair // heads) * time * heads + pair % heads
    b_qt = load_columns(q + token * K, o_c * heads, o_k, m_row, K)
    b_vt = load_columns(v + token * V, o_c * heads, o_v, m_row, V)
    b_a = load_gates(a + token * GATES, o_c, o_k, time, heads, K, CHANNEL)
    b_after = load_gates(a + token * GATES, o_c + 1, o_k, time, heads, K, CHANNEL)
    if CHANNEL:
        b_k = tl.trans(load_columns(k + token * K, o_c * heads, o_k, m_row, K))
        b_scores = tl.trans(channel_scores(b_qt, tl.trans(b_k), b_a, b_after, LEVELS, C, BK, OPERAND, PRECISION))
    else:
        b_k = load_tile(k + token * K, o_c * heads, o_k, m_row, K)
        b_scores = product(b_k, b_qt, OPERAND, PRECISION) * decay_columns(b_a, C)
    b_y = product(b_vt, b_scores, OPERAND, PRECISION)
    b_state = product(b_vt, b_k * tl.trans(to_end(b_after, CHANNEL)), OPERAND, PRECISION)  # (5)
    if INITIAL:
        b_start = load_columns(initial_state + pair * K * V, o_k, o_v, m_k, V)
        b_decay = from_start(b_a, CHANNEL)
        b_y += product(b_start, b_qt * b_decay, OPERAND, PRECISION)  # (4)
        b_state += b_start * column(b_decay, C - 1, C)[None, :]
    store_columns(y + token * V, b_y, o_c * heads, o_v, m_row, V)
    store_columns(last_state + pair * K * V, b_state, o_k, o_v, m_k, V)


@triton.jit
def short_backward_kernel(
    q,
    k,
    v,
    a,
    initial_state,
    dy,
    dlast_state,
    dq,
    dk,
    dv,
    da,
    dinitial_state,
    time,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    LEVELS: tl.constexpr,
    CHANNEL: tl.constexpr,
    INITIAL: tl.constexpr,
    LAST: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    GATES: tl.constexpr = K if CHANNEL else 1
    pair = tl.program_id(0).to(tl.int64)
    o_k, o_v, o_c = tl.arange(0, BK), tl.arange(0, BV), tl.arange(0, C)
    m_k, m_row = o_k < K, o_c < time
    token = (pair // heads) * time * heads + pair % heads
    b_q = load_tile(q + token * K, o_c * heads, o_k, m_row, K)
    b_qt = load_columns(q + token * K, o_c * heads, o_k, m_row, K)
    b_kt = load_columns(k + token * K, o_c * heads, o_k, m_row, K)
    b_vt = load_columns(v + token * V, o_c * heads, o_v, m_row, V)
    b_dyt = load_columns(dy + token * V, o_c * heads, o_v, m_row, V)
    b_a = load_gates(a + token * GATES, o_c, o_k, time, heads, K, CHANNEL)
    b_after = load_gates(a + token * GATES, o_c + 1, o_k, time, heads, K, CHANNEL)
    b_from_start, b_to_end = from_start(b_a, CHANNEL), to_end(b_after, CHANNEL)
    if CHANNEL:
        b_scores = channel_scores(b_qt, b_kt, b_a, b_after, LEVELS, C, BK, OPERAND, PRECISION)
    else:
        b_decay = decay_matrix(b_a, C)
        b_products = product(b_q, b_kt, OPERAND, PRECISION)
        b_scores = b_products * b_decay
    b_dv = product(b_dyt, b_scores, OPERAND, PRECISION)
    b_queried = tl.zeros([BK, C], dtype=tl.float32)  # Y
    b_stored = tl.zeros([BK, C], dtype=tl.float32)  # X
    b_kept = tl.zeros([BK], dtype=tl.float32)
    if LAST:
        b_dlast = load_tile(dlast_state + pair * K * V, o_k, o_v, m_k, V)
        b_dlast_columns = load_columns(dlast_state + pair * K * V, o_k, o_v, m_k, V)
        b_dv += product(b_dlast_columns, b_kt * b_to_end, OPERAND, PRECISION)  # (7)
        b_stored += product(b_dlast, b_vt, OPERAND, PRECISION)
    store_columns(dv + token * V, b_dv, o_c * heads, o_v, m_row, V)
    if INITIAL:
        b_state = load_tile(initial_state + pair * K * V, o_k, o_v, m_k, V)
        b_queried += product(b_state, b_dyt, OPERAND, PRECISION)
        b_dstate = product(b_dyt, b_q * tl.trans(b_from_start), OPERAND, PRECISION)  # (8)
        if LAST:
            b_kept += tl.sum(b_state * b_dlast, axis=1)
            b_dstate += b_dlast_columns * column(b_from_start, C - 1, C)[None, :]
        store_columns(dinitial_state + pair * K * V, b_dstate, o_k, o_v, m_k, V)

    b_dy = load_tile(dy + token * V, o_c * heads, o_v, m_row, V)
    b_met = product(b_dy, b_vt, OPERAND, PRECISION)  # G
    if CHANNEL:
        b_dqt, b_dkt, b_da = channel_gradients(
            b_qt, b_kt, b_a, b_after, b_met, b_queried, b_stored, b_kept, LEVELS, C, BK, OPERAND, PRECISION
        )
        store_columns(da + token * K, b_da, o_c * heads, o_k, m_row, K)
    else:
        b_decayed = b_met * b_decay
        b_dqt = product(b_kt, tl.trans(b_decayed), OPERAND, PRECISION) + b_queried * b_from_start
        b_dkt = product(b_qt, b_decayed, OPERAND, PRECISION) + b_stored * b_to_end
        b_start = tl.sum(b_qt * b_queried, axis=0) + tl.where(o_c == C - 1, tl.sum(b_kept), 0.0)
        b_da = gate_gradient(b_a, b_after, b_products * b_met, b_start, tl.sum(b_kt * b_stored, axis=0), LEVELS, C)
        tl.store(da + token + o_c * heads, b_da.to(da.dtype.element_ty), mask=m_row)
    store_columns(dq + token * K, b_dqt, o_c * heads, o_k, m_row, K)
    store_columns(dk + token * K, b_dkt, o_c * heads, o_k, m_row, K)
