# mypy: disable-error-code="no-untyped-def, import-untyped"
"""The kernels of the forward pass, which also run against time for the gradients of states and values.

Walk. The state is computed along the chunks; its gradient is computed against time, by the same walk.

    forward    S  ← Γ_C0 ⊙ S  + Σ_j (Γ_Cj ⊙ k_j) v_jᵀ        (5)    keeps S  at the start of each chunk
    reverse    dS ← Γ_C0 ⊙ dS + Σ_i (Γ_i0 ⊙ q_i) dy_iᵀ       (8)    keeps dS at the end of each chunk

The entries of the state do not interact: a program owns a block of BK channels and BV columns. Blocks are held as columns,
[BV, BK], so that the left operand of the product is a tile from memory. With one gate per channel, `scores_kernel` has written
the factors of v and dy as they are needed here, and Γ_C0.

A few long sequences are cut into segments of `span` chunks (13): all segments walk from zero, `carry_kernel` finds the state
from which each should have started, and all walk again from there. Equations: docs/derivations/gated_linear.md.

Output. The outputs, and the gradients of the values, are the same computation, for all chunks at once:

    forward    y_i  = Σ_{j≤i} P_ij v_j  + Sᵀ (Γ_i0 ⊙ q_i)         (4)
    reverse    dv_j = Σ_{i≥j} P_ij dy_i + dS'ᵀ (Γ_Cj ⊙ k_j)       (7)

P_ij = q_iᵀ Γ_ij k_j is computed here with one gate per head; with one per channel it is read from memory, as Γ_i0 ⊙ q_i and
Γ_Cj ⊙ k_j are. Results are built as columns, [BV, C], so that the left operand of every product is a tile from memory.

C tokens per chunk  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.gated_linear.gates import column, decay_columns, from_start, load_gates, to_end
from eigentrack.ops.shared.tiles import (
    decay_matrix,
    load_columns,
    load_tile,
    locate_chunk,
    locate_sequence,
    product,
    store_columns,
)


@triton.jit
def walk_kernel(
    key,
    value,
    gates,
    start_state,
    end_state,
    whole_decay,
    states,
    bounds,
    chunk_starts,
    time,
    heads,
    segments,
    span,
    K: tl.constexpr,
    V: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    CHANNEL: tl.constexpr,
    PACKED: tl.constexpr,
    REVERSE: tl.constexpr,
    START: tl.constexpr,
    END: tl.constexpr,
    DECAY: tl.constexpr,
    KEEP: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Walk along the chunks of one segment, or against time if REVERSE, and write the state or its gradient before each.

    key and value are k and v, or q and dy if REVERSE; gates are a. With one gate per channel, key is Γ_Cj ⊙ k_j or Γ_i0 ⊙ q_i,
    and gates are Γ_C0. `start_state` and `end_state` [S, H, segments, K, V] are those of the walk: if REVERSE, it ends at the
    initial state. `whole_decay` is the product of a segment's gates; `states` has one entry per chunk.
    """
    VALUE_BLOCKS: tl.constexpr = (V + BV - 1) // BV
    BLOCKS: tl.constexpr = VALUE_BLOCKS * ((K + BK - 1) // BK)
    unit = (tl.program_id(0) // BLOCKS).to(tl.int64)  # a segment of one head of one sequence
    block = tl.program_id(0) % BLOCKS
    pair, segment = tl.program_id(0) // BLOCKS // segments, tl.program_id(0) // BLOCKS % segments
    sequence, head = pair // heads, pair % heads
    o_k = block // VALUE_BLOCKS * BK + tl.arange(0, BK)
    o_v = block % VALUE_BLOCKS * BV + tl.arange(0, BV)
    o_c = tl.arange(0, C)
    m_k = o_k < K
    begin, length, slot = locate_sequence(sequence, bounds, chunk_starts, time, C, 1, PACKED)

    b_state = tl.zeros([BV, BK], dtype=tl.float32)
    if START:
        b_state += load_columns(start_state + unit * K * V, o_k, o_v, m_k, V)
    b_segment = tl.full([BK if CHANNEL else 1], 1.0, dtype=tl.float32)
    first = segment * span
    end = tl.minimum(first + span, tl.cdiv(length, C))
    for step in range(first, end):
        chunk = first + end - 1 - step if REVERSE else step
        tokens = tl.minimum(length - chunk * C, C)
        m_row = o_c < tokens
        token = (begin + chunk * C) * heads + head
        place = (slot + chunk) * heads + head
        if KEEP:
            store_columns(states + place * K * V, b_state, o_k, o_v, m_k, V)
        b_key = load_tile(key + token * K, o_c * heads, o_k, m_row, K)
        b_value = load_columns(value + token * V, o_c * heads, o_v, m_row, V)
        if CHANNEL:
            b_whole = tl.load(gates + place * K + o_k, mask=m_k, other=0.0)
        else:
            b_a = load_gates(gates + token, o_c, o_k, tokens, heads, K, False)
            if REVERSE:
                b_decay = from_start(b_a, False)
                b_whole = column(b_decay, C - 1, C)
            else:
                b_after = load_gates(gates + token, o_c + 1, o_k, tokens, heads, K, False)
                b_decay = to_end(b_after, False)
                b_whole = column(b_decay * b_a, 0, C)
            b_key = b_key * tl.trans(b_decay)
        if DECAY:
            b_segment *= b_whole
        b_state = b_state * b_whole[None, :] + product(b_value, b_key, OPERAND, PRECISION)
    if END:
        store_columns(end_state + unit * K * V, b_state, o_k, o_v, m_k, V)
    if DECAY and block % VALUE_BLOCKS == 0:
        if CHANNEL:
            tl.store(whole_decay + unit * K + o_k, b_segment, mask=m_k)
        elif block == 0:
            tl.store(whole_decay + unit + tl.arange(0, 1), b_segment)


@triton.jit
def carry_kernel(
    ends,
    whole_decay,
    start_state,
    end_state,
    segments,
    SIZE: tl.constexpr,
    V: tl.constexpr,
    BLOCK: tl.constexpr,
    CHANNEL: tl.constexpr,
    REVERSE: tl.constexpr,
    START: tl.constexpr,
    END: tl.constexpr,
):
    """Replace the state that each segment reaches from zero by the state from which it starts (13). SIZE = K V."""
    BLOCKS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    o = tl.program_id(0) % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    mask = o < SIZE
    b_state = tl.zeros([BLOCK], dtype=tl.float32)
    if START:
        b_state += tl.load(start_state + pair * SIZE + o, mask=mask, other=0.0)
    for step in range(segments):
        unit = pair * segments + (segments - 1 - step if REVERSE else step)
        b_end = tl.load(ends + unit * SIZE + o, mask=mask, other=0.0)
        if CHANNEL:
            b_decay = tl.load(whole_decay + unit * (SIZE // V) + o // V, mask=mask, other=0.0)
        else:
            b_decay = tl.load(whole_decay + unit)
        tl.store(ends + unit * SIZE + o, b_state, mask=mask)
        b_state = b_state * b_decay + b_end
    if END:
        tl.store(end_state + pair * SIZE + o, b_state, mask=mask)


@triton.jit
def output_kernel(
    reader,
    writer,
    value,
    a,
    scores,
    states,
    output,
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
    CHANNEL: tl.constexpr,
    PACKED: tl.constexpr,
    REVERSE: tl.constexpr,
    STATE: tl.constexpr,
    OPERAND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the outputs of a chunk or, if REVERSE, the gradients of its values.

    reader, writer, value and output are q, k, v and y, or k, q, dy and dv if REVERSE; `states` are those at the chunk's start,
    or the gradients at its end. With one gate per channel, reader is Γ_i0 ⊙ q_i or Γ_Cj ⊙ k_j, and writer and a are not read.
    """
    BLOCKS: tl.constexpr = (V + BV - 1) // BV
    pair = tl.program_id(0) // BLOCKS
    slot, head = pair // heads, pair % heads
    first, tokens = locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C, 1, PACKED)
    if tokens > 0:
        o_v = (tl.program_id(0) % BLOCKS) * BV + tl.arange(0, BV)
        o_c = tl.arange(0, C)
        m_row = o_c < tokens
        token = first * heads + head
        place = pair.to(tl.int64)
        o_shift = o_c + 1 if REVERSE else o_c
        b_met = tl.zeros([C, C], dtype=tl.float32)  # the transpose of P, or P if REVERSE: columns are the reader's tokens
        b_output = tl.zeros([BV, C], dtype=tl.float32)
        for k_start in range(0, K, BK):
            o_k = k_start + tl.arange(0, BK)
            b_reader = load_columns(reader + token * K, o_c * heads, o_k, m_row, K)
            if not CHANNEL:
                b_writer = load_tile(writer + token * K, o_c * heads, o_k, m_row, K)
                b_met += product(b_writer, b_reader, OPERAND, PRECISION)
            if STATE:
                if not CHANNEL:
                    b_gates = load_gates(a + token, o_shift, o_k, tokens, heads, K, False)
                    b_reader = b_reader * (to_end(b_gates, False) if REVERSE else from_start(b_gates, False))
                b_state = load_columns(states + place * K * V, o_k, o_v, o_k < K, V)
                b_output += product(b_state, b_reader, OPERAND, PRECISION)
        if CHANNEL:
            if REVERSE:
                b_met += load_tile(scores + place * C * C, o_c, o_c, o_c < C, C)
            else:
                b_met += load_columns(scores + place * C * C, o_c, o_c, o_c < C, C)
        else:
            b_a = load_gates(a + token, o_c, o_c, tokens, heads, K, False)
            b_met *= decay_matrix(b_a, C) if REVERSE else decay_columns(b_a, C)
        b_value = load_columns(value + token * V, o_c * heads, o_v, m_row, V)
        b_output += product(b_value, b_met, OPERAND, PRECISION)
        store_columns(output + token * V, b_output, o_c * heads, o_v, m_row, V)
