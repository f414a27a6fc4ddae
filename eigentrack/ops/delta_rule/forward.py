# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Delta rule, forward, for sequences of any length. Two launches:

    prepare   all chunks at once: A (3), P (4) and the decays from the chunk's start and to its end
    walk      along the chunks:  x = A (v - Γ_i0 k S)  (5),  y = Γ_i0 q S + P b x  (6),  S ← Γ_C0 S + Σ_j Γ_Cj k_j b_j x_jᵀ  (7)

Equations: docs/derivations/delta_rule_kernels.md.

S state  C rows per chunk  N factors per token  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.delta_rule.chunk import chunk_matrices, chunk_rows, last_row, load_gates, lower_triangle, met_keys, solution
from eigentrack.ops.shared.tiles import decay_matrix, load_tile, locate_chunk, locate_sequence, product, store_tile


@triton.jit
def prepare_kernel(
    q,
    k,
    beta,
    gate,
    inverse,
    scores,
    from_start,
    to_end,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    N: tl.constexpr,
    K: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    GATED: tl.constexpr,
    PACKED: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    slot, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, N, PACKED)
    if tokens > 0:
        o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
        o_k = tl.arange(0, BK)
        token = first * heads + head
        b_k = load_tile(k + token * N * K, o_factor, o_k, m_factor, K)
        b_q = load_tile(q + token * K, o_token, o_k, m_last, K)
        b_beta = tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32)
        b_decay = lower_triangle(C)
        if GATED:
            b_g = load_gates(gate + token, tl.arange(0, C), tokens, heads, C, N)
            b_decay = decay_matrix(b_g, C)
        b_met = met_keys(k + token * N * K, b_k, o_factor, m_factor, C, K, BK, OPERAND)
        b_inverse, b_scores = chunk_matrices(b_q, b_k, b_met, b_beta, b_decay, C, OPERAND, PRECISION)
        o_c = tl.arange(0, C)
        m_all = o_c < C
        matrix = tl.program_id(0).to(tl.int64) * C * C
        store_tile(inverse + matrix, b_inverse, o_c, o_c, m_all, C)
        store_tile(scores + matrix, b_scores, o_c, o_c, m_all, C)
        if GATED:
            vector = tl.program_id(0).to(tl.int64) * C + o_c
            tl.store(from_start + vector, tl.cumprod(b_g, axis=0))
            tl.store(to_end + vector, last_row(b_decay, C))


# `time` is not specialised: compiled for a time of 1, the loop over chunks vanishes, and its products were wrong on Hopper
@triton.jit(do_not_specialize=["time"])
def walk_kernel(
    q,
    k,
    v,
    beta,
    inverse,
    scores,
    from_start,
    to_end,
    initial_state,
    y,
    last_state,
    errors,
    states,
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
    STATE: tl.constexpr,
    SAVE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write y and the last state, along the chunks of one head of one sequence, and what the backward pass needs if SAVE.

    STATE is false if there is a single chunk, which starts from zeros.
    """
    BLOCKS: tl.constexpr = (V + BV - 1) // BV
    pair = tl.program_id(0) // BLOCKS
    sequence, head = pair // heads, pair % heads
    o_v = (tl.program_id(0) % BLOCKS) * BV + tl.arange(0, BV)
    o_k = tl.arange(0, BK)
    o_c = tl.arange(0, C)
    m_k, m_all = o_k < K, o_c < C
    start, length, slot = locate_sequence(sequence, bounds, chunk_starts, time, C, N, PACKED)

    b_state = tl.zeros([BK, BV], dtype=tl.float32)
    if INITIAL:
        b_state += load_tile(initial_state + pair.to(tl.int64) * K * V, o_k, o_v, m_k, V)
    for chunk in range(tl.cdiv(length, C // N)):
        tokens = length - chunk * (C // N)
        o_factor, o_token, m_factor, m_last = chunk_rows(tokens, heads, C, N)
        token = (start + chunk * (C // N)) * heads + head
        place = (slot + chunk) * heads + head
        b_k = load_tile(k + token * N * K, o_factor, o_k, m_factor, K)
        b_q = load_tile(q + token * K, o_token, o_k, m_last, K)
        b_v = load_tile(v + token * N * V, o_factor, o_v, m_factor, V).to(tl.float32)
        b_beta = tl.load(beta + token * N + o_factor, mask=m_factor, other=0.0).to(tl.float32)
        b_inverse = load_tile(inverse + place * C * C, o_c, o_c, m_all, C)
        b_scores = load_tile(scores + place * C * C, o_c, o_c, m_all, C)
        b_y = tl.zeros([C, BV], dtype=tl.float32)
        if STATE:
            if SAVE:
                store_tile(states + place * K * V, b_state, o_k, o_v, m_k, V)
            b_stored = product(b_k, b_state, OPERAND, PRECISION)
            b_y += product(b_q, b_state, OPERAND, PRECISION)
            if GATED:
                b_from_start = tl.load(from_start + place * C + o_c)
                b_stored *= b_from_start[:, None]
                b_y *= b_from_start[:, None]
            b_v -= b_stored
        b_error = solution(b_inverse, b_v, OPERAND, PRECISION)  # (5)
        if SAVE:
            store_tile(errors + token * N * V, b_error, o_factor, o_v, m_factor, V)
        b_u = b_beta[:, None] * b_error
        b_y += product(b_scores, b_u, OPERAND, PRECISION)  # (6)
        store_tile(y + token * V, b_y, o_token, o_v, m_last, V)
        if GATED:
            b_u *= tl.load(to_end + place * C + o_c)[:, None]
            b_state *= tl.load(from_start + place * C + C - 1)
        b_state += product(tl.trans(b_k), b_u, OPERAND, PRECISION)  # (7)
    store_tile(last_state + pair.to(tl.int64) * K * V, b_state, o_k, o_v, m_k, V)
