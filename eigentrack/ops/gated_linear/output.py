# mypy: disable-error-code="no-untyped-def, import-untyped"
"""What a chunk reads: the outputs, and the gradients of the values. The same computation, over all chunks at once:

    forward    y_i  = Σ_{j≤i} P_ij v_j  + Sᵀ (Γ_i0 ⊙ q_i)         (4)
    reverse    dv_j = Σ_{i≥j} P_ij dy_i + dS'ᵀ (Γ_Cj ⊙ k_j)       (7)

P_ij = q_iᵀ Γ_ij k_j: computed here for one gate a head; for one a channel it is read from memory, as Γ_i0 ⊙ q_i and Γ_Cj ⊙ k_j
are. Results are built as columns, [BV, C], so that the left operand of every product is a tile from memory. Equations:
docs/derivations/gated_linear.md.

C tokens a chunk  K key dim  V value dim  BK, BV blocks of K and V, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.delta_rule.chunk import decay_matrix, load_columns, load_tile, product, store_columns
from eigentrack.ops.delta_rule.forward import locate_chunk
from eigentrack.ops.gated_linear.decay import decay_columns, from_start, load_gates, to_end


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
    """Reader, writer, value, output: q, k, v, y, or k, q, dy, dv. `states` at the chunk's start, or gradients at its end. One
    gate a channel: the reader is Γ_i0 ⊙ q_i, or Γ_Cj ⊙ k_j, and neither writer nor a is read."""
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
        b_met = tl.zeros([C, C], dtype=tl.float32)  # the transpose of P, or P: the reader's tokens lie in columns
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
