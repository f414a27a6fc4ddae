# mypy: disable-error-code="no-untyped-def, import-untyped"
"""sLSTM, backward: one launch walks every sequence against time with the gradient of its state in registers.

The forward pass kept the gates and the state that each token met, so only the gradient is multiplied by R: ḣ ← Σ_g R_gᵀ ġ (11).
The kernel writes the gradients of all gates in float32; the caller multiplies them by the kept h for the gradient of R (12).
Equations: docs/derivations/slstm.md.

S sequences  H heads  D head dim  BS, BD blocks of sequences and of D
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.slstm.cell import cell, load_blocks, load_four, load_rows, locate, sigmoid, store_four, store_rows


@triton.jit
def backward_kernel(
    recurrent,
    kept_gates,
    kept_states,
    dy,
    dlast_c,
    dlast_n,
    dlast_h,
    dgates,
    dc,
    dn,
    dh,
    bounds,
    sequences,
    time,
    heads,
    D: tl.constexpr,
    BS: tl.constexpr,
    BD: tl.constexpr,
    PACKED: tl.constexpr,
    LAST: tl.constexpr,
):
    head = tl.program_id(0) % heads
    o_s, o_d = (tl.program_id(0) // heads) * BS + tl.arange(0, BS), tl.arange(0, BD)
    first, length = locate(o_s, bounds, sequences, time, PACKED)
    b_rz, b_ri, b_rf, b_ro = load_blocks(recurrent, head, o_d, D)
    state, m_s = o_s.to(tl.int64) * heads + head, o_s < sequences
    b_dc = tl.zeros([BS, BD], dtype=tl.float32)
    b_dn, b_dh = b_dc, b_dc
    if LAST:
        b_dc += load_rows(dlast_c, state, m_s, o_d, D)
        b_dn += load_rows(dlast_n, state, m_s, o_d, D)
        b_dh += load_rows(dlast_h, state, m_s, o_d, D)

    longest = tl.max(length)
    row, m_row = (first + longest - 1) * heads + head, (longest > 0) & (longest - 1 < length)
    gates_ahead, state_ahead = load_four(kept_gates, row, m_row, o_d, D), load_four(kept_states, row, m_row, o_d, D)
    dy_ahead = load_rows(dy, row, m_row, o_d, D)
    for step in range(0, longest):
        token = longest - 1 - step
        row, m_row = (first + token) * heads + head, token < length
        b_z, b_i, b_f, b_o = gates_ahead
        b_c, b_n, _, b_m = state_ahead
        b_reach = b_dh + dy_ahead
        row_ahead, m_ahead = row - heads, (token > 0) & (token <= length)
        gates_ahead = load_four(kept_gates, row_ahead, m_ahead, o_d, D)
        state_ahead = load_four(kept_states, row_ahead, m_ahead, o_d, D)
        dy_ahead = load_rows(dy, row_ahead, m_ahead, o_d, D)
        new_c, new_n, _, b_value, b_keep, b_write = cell(b_z, b_i, b_f, b_c, b_n, b_m)
        b_open = sigmoid(b_o)
        b_ratio = new_c / new_n

        b_do = b_reach * b_ratio * b_open * sigmoid(-b_o)  # (6)
        b_reach *= b_open / new_n
        new_dc, new_dn = b_dc + b_reach, b_dn - b_reach * b_ratio  # (7)
        b_dz = new_dc * b_write * (1.0 - b_value * b_value)  # (8)
        b_di = (new_dc * b_value + new_dn) * b_write  # (9)
        b_df = (new_dc * b_c + new_dn * b_n) * b_keep * sigmoid(-b_f)  # (10)
        store_four(dgates, b_dz, b_di, b_df, b_do, row, m_row, o_d, D)
        new_dh = tl.dot(b_dz, b_rz, input_precision="ieee")  # (11)
        new_dh = tl.dot(b_di, b_ri, new_dh, input_precision="ieee")
        new_dh = tl.dot(b_df, b_rf, new_dh, input_precision="ieee")
        new_dh = tl.dot(b_do, b_ro, new_dh, input_precision="ieee")
        new_dc, new_dn = new_dc * b_keep, new_dn * b_keep
        if PACKED:  # a shorter sequence keeps its gradient until the walk reaches its last token
            live = m_row[:, None]
            new_dc, new_dn, new_dh = tl.where(live, new_dc, b_dc), tl.where(live, new_dn, b_dn), tl.where(live, new_dh, b_dh)
        b_dc, b_dn, b_dh = new_dc, new_dn, new_dh
    store_rows(dc, b_dc, state, m_s, o_d, D)
    store_rows(dn, b_dn, state, m_s, o_d, D)
    store_rows(dh, b_dh, state, m_s, o_d, D)
