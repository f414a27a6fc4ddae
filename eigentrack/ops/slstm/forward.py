# mypy: disable-error-code="no-untyped-def, import-untyped"
"""sLSTM, forward: one launch walks every sequence through time with its state in registers.

    (z, i, f, o) = x_t + R h (1),    (c, n, m) ← cell(z, i, f; c, n, m) (2-4),    h ← σ(o) c / n (5)

A program owns BS sequences of one head; their rows of h multiply R, transposed in memory, from the left. The rows of the next
token are loaded while this one is computed. For the backward pass each token keeps its gates (z, i, f, o) and the state
(c, n, h, m) that it met. Equations: docs/derivations/slstm.md.

S sequences  H heads  D head dim  BS, BD blocks of sequences and of D
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.slstm.cell import cell, load_blocks, load_four, load_rows, locate, sigmoid, store_four, store_rows


@triton.jit
def forward_kernel(
    gates,
    transposed,
    c,
    n,
    h,
    m,
    y,
    last_c,
    last_n,
    last_h,
    last_m,
    kept_gates,
    kept_states,
    bounds,
    sequences,
    time,
    heads,
    D: tl.constexpr,
    BS: tl.constexpr,
    BD: tl.constexpr,
    PACKED: tl.constexpr,
    SAVE: tl.constexpr,
):
    head = tl.program_id(0) % heads
    o_s, o_d = (tl.program_id(0) // heads) * BS + tl.arange(0, BS), tl.arange(0, BD)
    first, length = locate(o_s, bounds, sequences, time, PACKED)
    b_rz, b_ri, b_rf, b_ro = load_blocks(transposed, head, o_d, D)
    state, m_s = o_s.to(tl.int64) * heads + head, o_s < sequences
    b_c, b_n = load_rows(c, state, m_s, o_d, D), load_rows(n, state, m_s, o_d, D)
    b_h, b_m = load_rows(h, state, m_s, o_d, D), load_rows(m, state, m_s, o_d, D)

    ahead = load_four(gates, first * heads + head, length > 0, o_d, D)
    for token in range(0, tl.max(length)):
        row, m_row = (first + token) * heads + head, token < length
        b_z, b_i, b_f, b_o = ahead
        ahead = load_four(gates, row + heads, token + 1 < length, o_d, D)
        b_z += tl.dot(b_h, b_rz, input_precision="ieee")  # (1)
        b_i += tl.dot(b_h, b_ri, input_precision="ieee")
        b_f += tl.dot(b_h, b_rf, input_precision="ieee")
        b_o += tl.dot(b_h, b_ro, input_precision="ieee")
        if SAVE:
            store_four(kept_gates, b_z, b_i, b_f, b_o, row, m_row, o_d, D)
            store_four(kept_states, b_c, b_n, b_h, b_m, row, m_row, o_d, D)
        new_c, new_n, new_m, _, _, _ = cell(b_z, b_i, b_f, b_c, b_n, b_m)
        new_h = sigmoid(b_o) * new_c / new_n  # (5)
        store_rows(y, new_h, row, m_row, o_d, D)
        if PACKED:  # a sequence that has ended keeps its state
            live = m_row[:, None]
            new_c, new_n = tl.where(live, new_c, b_c), tl.where(live, new_n, b_n)
            new_h, new_m = tl.where(live, new_h, b_h), tl.where(live, new_m, b_m)
        b_c, b_n, b_h, b_m = new_c, new_n, new_h, new_m
    store_rows(last_c, b_c, state, m_s, o_d, D)
    store_rows(last_n, b_n, state, m_s, o_d, D)
    store_rows(last_h, b_h, state, m_s, o_d, D)
    store_rows(last_m, b_m, state, m_s, o_d, D)
