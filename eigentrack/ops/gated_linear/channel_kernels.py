# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
"""Scores of a chunk and their gradients with one gate per key channel: every thread follows its channels through 16 tokens.

    h_j = Γ_ij k_j at token i;                           P_ij = q_i·h_j,   dq_i = Γ_i0 Y_i + Σ_j G_ij h_j           (14)
    d_j = Σ_{i≥t} Γ_it q_i G_ij at token t, backwards;   dk_t = Γ_16t X_t + d_t,   da_t from the h_j and d_j        (15)

Tiles [16, BK] hold one h_j or d_j in each row, and a thread holds all rows of its channels: a running product costs it one
multiplication per step and no exchange with other threads. A program has one of the two blocks of 16 tokens of a chunk; the
other block reaches it through the state between them (16). The kernel of the scores also carries queries and keys to the ends
of their chunk (17). Equations: docs/derivations/gated_linear.md.

C tokens per chunk  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.gated_linear.backward import pair_products
from eigentrack.ops.shared.tiles import load_columns, load_tile, locate_chunk, product, store_tile, times

BLOCK = tl.constexpr(16)  # tokens
BLOCK_LEVELS = tl.constexpr(4)
LANES = tl.constexpr(32)  # threads of a warp; a program of `scores_kernel` is one warp
NOTHING = tl.constexpr(-0.0)  # what the compiler may leave out of a sum: x + (-0.0) = x for every x


@triton.jit
def own_channels(p, o_k, heads, K: tl.constexpr):
    """Return the addresses of a block, [16, BK], so that each thread gets single channels and all tokens.

    tl.program_id(1) is always 0, but the compiler does not know it: since addresses might be odd, it does not give a thread
    several neighbouring channels and few tokens.
    """
    return p + tl.program_id(1) + tl.arange(0, BLOCK)[:, None] * (heads * K) + o_k[None, :]


@triton.jit
def is_inside(o_k, tokens, K: tl.constexpr):
    return (tl.arange(0, BLOCK) < tokens)[:, None] & (o_k < K)[None, :]


@triton.jit
def row_of(b_tile, AT: tl.constexpr):
    """Return row AT of a tile [16, BK]."""
    return tl.sum(tl.where((tl.arange(0, BLOCK) == AT)[:, None], b_tile, NOTHING), axis=0)


@triton.jit
def rows_up_to(b_tile, LAST: tl.constexpr):
    """Return the sum of the rows 0..LAST of a tile [16, BK]."""
    return tl.sum(tl.where((tl.arange(0, BLOCK) <= LAST)[:, None], b_tile, NOTHING), axis=0)


@triton.jit
def with_row(b_tile, b_row, AT: tl.constexpr):
    return tl.where((tl.arange(0, BLOCK) == AT)[:, None], b_row[None, :], b_tile)


@triton.jit
def follow(b_held, b_a, b_k, AT: tl.constexpr):
    """Move the h of the tokens before AT through the gate of token AT, and add its key; rows after AT are zero."""
    o = tl.arange(0, BLOCK)[:, None]
    return tl.where(o < AT, b_held * b_a[None, :], tl.where(o == AT, b_k[None, :], 0.0))


@triton.jit
def columns(b_tile, BK: tl.constexpr):
    """Split [BK, 16] into its columns, [BK] each."""
    parts = (b_tile,)
    for level in tl.static_range(BLOCK_LEVELS):
        halved = ()
        for part in tl.static_range(2**level):
            b_pairs = tl.reshape(parts[part], [BK, 2, 2 ** (BLOCK_LEVELS - 1 - level)])
            b_first, b_second = tl.split(tl.permute(b_pairs, [0, 2, 1]))
            halved = halved + (b_first, b_second)  # noqa: RUF005, Triton has no star in a tuple
        parts = halved
    vectors = ()
    for part in tl.static_range(2**BLOCK_LEVELS):
        vectors = vectors + (tl.reshape(parts[part], [BK]),)  # noqa: RUF005
    return vectors


@triton.jit
def load_own(p, o_k, tokens, heads, OTHER: tl.constexpr, K: tl.constexpr):
    """Load the first `tokens` tokens of a block in float32, [16, BK]; OTHER where there is no token."""
    return tl.load(own_channels(p, o_k, heads, K), mask=is_inside(o_k, tokens, K), other=OTHER).to(tl.float32)


@triton.jit
def first_keys(k, a, o_k, tokens, heads, K: tl.constexpr):
    """Return the keys of the first `tokens` tokens of a block, carried to its end, and the product of its gates (16)."""
    b_after = load_own(a + heads * K, o_k, tokens - 1, heads, 1.0, K)
    b_decay = tl.cumprod(b_after, axis=0, reverse=True)
    b_whole = row_of(load_own(a, o_k, tl.minimum(tokens, 1), heads, 1.0, K), 0) * row_of(b_decay, 0)
    return load_own(k, o_k, tokens, heads, 0.0, K) * b_decay, b_whole


@triton.jit
def last_queries(q, a, o_k, tokens, heads, K: tl.constexpr):
    """Return the queries of the first `tokens` tokens of a block, carried to its start, and the product of its gates (16)."""
    b_decay = tl.cumprod(load_own(a, o_k, tokens, heads, 1.0, K), axis=0)
    return load_own(q, o_k, tokens, heads, 0.0, K) * b_decay, row_of(b_decay, BLOCK - 1)


@triton.jit
def scores_kernel(
    q,
    k,
    a,
    scores,
    queries,
    keys,
    decays,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    K: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    PACKED: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write P of every chunk, zero above the diagonal, and Γ_i0 ⊙ q_i, Γ_Cj ⊙ k_j and Γ_C0, which walks and outputs read.

    There is one program for each block of a chunk.
    """
    tl.static_assert(C == 2 * BLOCK)
    pair, second = tl.program_id(0) // 2, tl.program_id(0) % 2
    slot, head = pair // heads, pair % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, 1, PACKED)
    if tokens > 0:
        o = tl.arange(0, BLOCK)
        place = pair.to(tl.int64)
        token = first * heads + head
        own, left = token + second * BLOCK * heads, tokens - second * BLOCK  # the block's first token, how many are left
        other, others = token + (1 - second) * BLOCK * heads, tokens - (1 - second) * BLOCK
        o_row = tl.arange(0, LANES)  # rows of P, one per thread: with only 16, two threads would hold and write the same row
        b_columns = tl.zeros([BLOCK, LANES], dtype=tl.float32)  # the transpose of P
        b_across = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
        for k_start in range(0, K, BK):
            o_k = k_start + tl.arange(0, BK)
            b_q = load_own(q + own * K, o_k, left, heads, 0.0, K)
            b_k = load_own(k + own * K, o_k, left, heads, 0.0, K)
            b_a = load_own(a + own * K, o_k, left, heads, 1.0, K)
            b_held = tl.zeros([BLOCK, BK], dtype=tl.float32)
            b_start = tl.full([BK], 1.0, tl.float32)  # Γ_i0 of the block
            b_queries = b_held
            for i in tl.static_range(BLOCK):
                b_gate, b_query = row_of(b_a, i), row_of(b_q, i)
                b_held = follow(b_held, b_gate, row_of(b_k, i), i)
                b_column = tl.sum(b_held * b_query[None, :], axis=1)  # row i of P, here a column
                b_columns += tl.where((o_row == i)[None, :], b_column[:, None], 0.0)
                b_start = b_start * b_gate
                b_queries = with_row(b_queries, b_start * b_query, i)
            # b_held now has the keys carried to the block's end, and b_start is the product of all its gates
            b_other = tl.reduce(load_own(a + other * K, o_k, others, heads, 1.0, K), 0, times)
            if second == 1:
                b_keys, _ = first_keys(k + other * K, a + other * K, o_k, tl.minimum(others, BLOCK), heads, K)
                b_across += product(b_queries, tl.trans(b_keys), OPERAND, PRECISION)
            else:
                tl.store(decays + place * K + o_k, b_start * b_other, mask=o_k < K)
            b_queries *= tl.where(second == 1, b_other, 1.0)[None, :]
            b_held *= tl.where(second == 1, 1.0, b_other)[None, :]
            m_inside = is_inside(o_k, left, K)
            tl.store(own_channels(queries + own * K, o_k, heads, K), b_queries.to(OPERAND), mask=m_inside)
            tl.store(own_channels(keys + own * K, o_k, heads, K), b_held.to(OPERAND), mask=m_inside)
        p_scores = scores + place * C * C + second * BLOCK * C
        p_columns = p_scores + second * BLOCK + o[:, None] + o_row[None, :] * C
        tl.store(p_columns, b_columns.to(scores.dtype.element_ty), mask=(o_row < BLOCK)[None, :])
        store_tile(p_scores + (1 - second) * BLOCK, b_across, o, o, o < BLOCK, C)


@triton.jit
def pairs_kernel(
    v,
    dy,
    pairs,
    bounds,
    chunk_starts,
    chunk_sequence,
    time,
    heads,
    V: tl.constexpr,
    C: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write G_ij = dy_i·v_j of every block."""
    pair, second = tl.program_id(0) // 2, tl.program_id(0) % 2
    slot, head = pair // heads, pair % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, 1, PACKED)
    if tokens > second * BLOCK:
        o = tl.arange(0, BLOCK)
        m_row = o < tokens - second * BLOCK
        own = (first + second * BLOCK) * heads + head
        b_pairs = pair_products(dy + own * V, v + own * V, m_row, heads, V, BLOCK, BV, OPERAND, PRECISION)
        store_tile(pairs + tl.program_id(0).to(tl.int64) * BLOCK * BLOCK, b_pairs, o, o, o < BLOCK, BLOCK)


@triton.jit
def load_rows(p, AT: tl.constexpr):
    """Load four rows of [16, 16] from AT on, [16] each, at once: compilation time grows with the number of loads."""
    o, o_two = tl.arange(0, BLOCK), tl.arange(0, 2) * BLOCK
    b_rows = tl.load(p + AT * BLOCK + o[:, None, None] + 2 * o_two[None, :, None] + o_two[None, None, :])
    b_even, b_odd = tl.split(b_rows)
    b_0, b_2 = tl.split(b_even)
    b_1, b_3 = tl.split(b_odd)
    return b_0, b_1, b_2, b_3


@triton.jit
def follow_gradients(b_q, b_k, b_a, pairs, queried, stored, b_kept, BK: tl.constexpr):
    """Return dq, dk, da [16, BK] of a block, (14) and (15), from its G, and from Y and X of the states on both sides of it."""
    o_j = tl.arange(0, BLOCK)
    b_held = tl.zeros([BLOCK, BK], dtype=tl.float32)
    b_start = tl.full([BK], 1.0, tl.float32)  # Γ_i0
    b_met = tl.zeros([BK], dtype=tl.float32)  # Σ_{j≤i} Γ_ij k_j X_j
    b_dq, b_dk, b_da = b_held, b_held, b_held
    before = ()  # b_held, b_start and b_met as they were before each token
    for i in tl.static_range(BLOCK):
        before = before + (b_held, b_start, b_met)  # noqa: RUF005
        b_gate, b_key = row_of(b_a, i), row_of(b_k, i)
        b_held = follow(b_held, b_gate, b_key, i)
        b_start = b_start * b_gate
        b_met = b_met * b_gate + b_key * stored[i]
        if i % 4 == 0:
            rows = load_rows(pairs, i)
        b_pairs = rows[i % 4]
        b_dq = with_row(b_dq, b_start * queried[i] + rows_up_to(b_held * b_pairs[:, None], i), i)
    b_owed = tl.zeros([BLOCK, BK], dtype=tl.float32)  # d_j
    b_asked = b_kept  # Γ_16t ⟨S, dS″⟩ + Σ_{i≥t} Γ_it q_i Y_i
    b_end = tl.full([BK], 1.0, tl.float32)  # Γ_16t
    for step in tl.static_range(BLOCK):
        b_query = row_of(b_q, BLOCK - 1 - step)
        if step % 4 == 0:
            rows = load_rows(pairs, BLOCK - 4 - step)
        b_pairs = rows[3 - step % 4]
        b_owed = tl.where((o_j < BLOCK - step)[:, None], b_owed + b_query[None, :] * b_pairs[:, None], 0.0)
        b_asked += b_query * queried[BLOCK - 1 - step]
        b_of_k = b_end * stored[BLOCK - 1 - step] + row_of(b_owed, BLOCK - 1 - step)
        b_of_a = before[3 * (BLOCK - 1 - step) + 1] * b_asked + before[3 * (BLOCK - 1 - step) + 2] * b_end
        if step < BLOCK - 1:
            b_of_a += rows_up_to(b_owed * before[3 * (BLOCK - 1 - step)], BLOCK - 2 - step)
        b_dk, b_da = with_row(b_dk, b_of_k, BLOCK - 1 - step), with_row(b_da, b_of_a, BLOCK - 1 - step)
        b_gate = row_of(b_a, BLOCK - 1 - step)
        b_owed, b_asked, b_end = b_owed * b_gate[None, :], b_asked * b_gate, b_end * b_gate
    return b_dq, b_dk, b_da


@triton.jit
def channel_gradients_kernel(
    q,
    k,
    v,
    a,
    pairs,
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
    PACKED: tl.constexpr,
    STATE: tl.constexpr,
    DSTATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write all gradients but those of v; there is one program for each block of a chunk and block of channels."""
    tl.static_assert(C == 2 * BLOCK)
    BLOCKS: tl.constexpr = (K + BK - 1) // BK
    pair, second = tl.program_id(0) // (2 * BLOCKS), tl.program_id(0) // BLOCKS % 2
    slot, head = pair // heads, pair % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, 1, PACKED)
    if tokens > second * BLOCK:
        o = tl.arange(0, BLOCK)
        o_k = (tl.program_id(0) % BLOCKS) * BK + tl.arange(0, BK)
        m_k = o_k < K
        token = first * heads + head
        place = pair.to(tl.int64)
        middle = token + BLOCK * heads
        own, left = token + second * BLOCK * heads, tokens - second * BLOCK  # the block's first token, how many are left
        # (16): what the other block adds to the state before this one, and to the gradient of the state after it
        before, after = BLOCK * second, (tokens - BLOCK) * (1 - second)  # tokens of the other block
        b_keys, b_kept_state = first_keys(k + token * K, a + token * K, o_k, before, heads, K)
        b_queries, b_kept_dstate = last_queries(q + middle * K, a + middle * K, o_k, after, heads, K)
        b_queried = tl.zeros([BLOCK, BK], dtype=tl.float32)
        b_stored = tl.zeros([BLOCK, BK], dtype=tl.float32)
        b_kept = tl.zeros([BK], dtype=tl.float32)
        for v_start in range(0, V, BV):  # states are transposed: a left operand comes from memory, or has 16 rows
            o_v = v_start + tl.arange(0, BV)
            b_vt = load_columns(v + token * V, o * heads, o_v, o < before, V)
            b_state = product(b_vt, b_keys, OPERAND, PRECISION)
            if STATE:
                b_state += b_kept_state[None, :] * load_columns(states + place * K * V, o_k, o_v, m_k, V)
            b_dyt = load_columns(dy + middle * V, o * heads, o_v, o < after, V)
            b_dstate = product(b_dyt, b_queries, OPERAND, PRECISION)
            if DSTATE:
                b_dstate += b_kept_dstate[None, :] * load_columns(dstates + place * K * V, o_k, o_v, m_k, V)
            b_dy = load_tile(dy + own * V, o * heads, o_v, o < left, V)
            b_v = load_tile(v + own * V, o * heads, o_v, o < left, V)
            b_queried += product(b_dy, b_state, OPERAND, PRECISION)
            b_stored += product(b_v, b_dstate, OPERAND, PRECISION)
            b_kept += tl.sum(b_state * b_dstate, axis=0)
        queried, stored = columns(tl.trans(b_queried), BK), columns(tl.trans(b_stored), BK)
        p_pairs = pairs + (place * 2 + second) * BLOCK * BLOCK
        b_q = load_own(q + own * K, o_k, left, heads, 0.0, K)
        b_k = load_own(k + own * K, o_k, left, heads, 0.0, K)
        b_a = load_own(a + own * K, o_k, left, heads, 1.0, K)
        m_inside = is_inside(o_k, left, K)
        b_dq, b_dk, b_da = follow_gradients(b_q, b_k, b_a, p_pairs, queried, stored, b_kept, BK)
        tl.store(own_channels(dq + own * K, o_k, heads, K), b_dq.to(dq.dtype.element_ty), mask=m_inside)
        tl.store(own_channels(dk + own * K, o_k, heads, K), b_dk.to(dk.dtype.element_ty), mask=m_inside)
        tl.store(own_channels(da + own * K, o_k, heads, K), b_da.to(da.dtype.element_ty), mask=m_inside)
