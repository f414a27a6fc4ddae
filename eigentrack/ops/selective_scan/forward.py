# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Selective scan, forward: one launch walks every unit (see tokens.py) through time with its state in registers.

    h_t = a_t h_{t-1} + Δ_t x_t B_t  (3),     y_t = (Σ_n C_t h_t + D x_t) silu(z_t)  (4)

The rows of the next U tokens are loaded while the current ones are computed. For the backward pass the state is kept every
CHUNK tokens, unless every sequence has at most CHUNK tokens.
Equations: docs/derivations/selective_scan.md.

D channels  N state size  BD, BN blocks of them, powers of two  OWN channels per thread  U tokens per block
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.selective_scan.tokens import (
    LOG2_E,
    advance,
    block_channels,
    first_checkpoint,
    load_own_rows,
    load_rows,
    load_state,
    locate_unit,
    store_state,
)


@triton.jit
def forward_kernel(
    x,
    dt,
    b,
    c,
    z,
    log_decay,
    skip,
    starts,
    y,
    last_state,
    checkpoints,
    bounds,
    x_row,
    dt_row,
    b_row,
    c_row,
    z_row,
    time,
    segments,
    segment_length,
    D: tl.constexpr,
    N: tl.constexpr,
    BD: tl.constexpr,
    BN: tl.constexpr,
    OWN: tl.constexpr,
    U: tl.constexpr,
    CHUNK: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
    PACKED: tl.constexpr,
    START: tl.constexpr,
    GATED: tl.constexpr,
    SKIP: tl.constexpr,
    SAVE: tl.constexpr,
):
    BLOCKS: tl.constexpr = (D + BD - 1) // BD
    unit = tl.program_id(0) // BLOCKS
    first_channel = (tl.program_id(0) % BLOCKS) * BD
    o_d = first_channel + block_channels(BD, OWN)
    o_n = tl.arange(0, BN)
    m_d, m_n = o_d < D, o_n < N
    first, end = locate_unit(unit, bounds, time, segments, segment_length, PACKED)
    slot = first_checkpoint(unit, first, time, segments, segment_length, CHUNK, PACKED)

    b_rate = load_state(log_decay, o_d, o_n, D, N) * LOG2_E
    b_state = tl.zeros([BD, BN], dtype=tl.float32)
    if START:
        b_state += load_state(starts + unit.to(tl.int64) * D * N, o_d, o_n, D, N)
    if SKIP:
        b_skip = tl.load(skip + o_d, mask=m_d, other=0.0).to(tl.float32)

    next_x = load_own_rows(x, x_row, first_channel, first, end, D, BD, OWN, U)
    next_dt = load_own_rows(dt, dt_row, first_channel, first, end, D, BD, OWN, U)
    next_b = load_rows(b, b_row, o_n, m_n, first, end, U)
    next_c = load_rows(c, c_row, o_n, m_n, first, end, U)
    if SKIP:
        next_lane_x = load_rows(x, x_row, o_d, m_d, first, end, U)
    if GATED:
        next_z = load_rows(z, z_row, o_d, m_d, first, end, U)
    for token in range(first, end, U):
        if SAVE:  # noqa: SIM102, Triton would compile the branch
            if (token - first) % CHUNK == 0:
                store_state(checkpoints + (slot + (token - first) // CHUNK) * D * N, b_state, o_d, o_n, D, N)
        rows_x, rows_dt, rows_b, rows_c = next_x, next_dt, next_b, next_c
        next_x = load_own_rows(x, x_row, first_channel, token + U, end, D, BD, OWN, U)
        next_dt = load_own_rows(dt, dt_row, first_channel, token + U, end, D, BD, OWN, U)
        next_b = load_rows(b, b_row, o_n, m_n, token + U, end, U)
        next_c = load_rows(c, c_row, o_n, m_n, token + U, end, U)
        if SKIP:
            lane_x = next_lane_x
            next_lane_x = load_rows(x, x_row, o_d, m_d, token + U, end, U)
        if GATED:
            rows_z = next_z
            next_z = load_rows(z, z_row, o_d, m_d, token + U, end, U)
        for u in tl.static_range(U):
            b_x, b_dt = rows_x[u].to(tl.float32), rows_dt[u].to(tl.float32)
            inside = token + u < end
            b_state, _ = advance(b_state, b_dt, b_x, rows_b[u].to(tl.float32), b_rate, inside, LOW, HIGH, EXACT)
            b_y = tl.sum(b_state * rows_c[u].to(tl.float32)[None, :], axis=1)  # (4)
            if SKIP:
                b_y += b_skip * lane_x[u].to(tl.float32)
            if GATED:
                b_z = rows_z[u].to(tl.float32)
                b_y *= b_z * tl.sigmoid(b_z)
            tl.store(y + (token + u) * D + o_d, b_y.to(y.dtype.element_ty), mask=m_d & inside)
    if unit % segments == segments - 1:
        store_state(last_state + (unit // segments).to(tl.int64) * D * N, b_state, o_d, o_n, D, N)
