# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Segments of a few long sequences, which run at once, after two launches that find the state from which each segment starts:

    summary        all segments at once:   P = Π a_t  and the state E that the segment reaches from zero  (5)
    join           along the segments:     h ← P h + E                                                    (6)

The same holds backward: summary_back gives P and the gradient E that reaches a segment's start if none enters at its end, and
join goes through the segments from the last to the first. Equations: docs/derivations/selective_scan.md.

D channels  N state size  BD, BN blocks of them, powers of two  OWN channels per thread  U tokens per block
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.selective_scan.tokens import (
    LOG2_E,
    advance,
    block_channels,
    exponential,
    load_own_rows,
    load_rows,
    load_state,
    locate_unit,
    store_state,
    through_gate,
)


@triton.jit
def summary_kernel(
    x,
    dt,
    b,
    log_decay,
    products,
    ends,
    x_row,
    dt_row,
    b_row,
    time,
    segments,
    segment_length,
    D: tl.constexpr,
    N: tl.constexpr,
    BD: tl.constexpr,
    BN: tl.constexpr,
    OWN: tl.constexpr,
    U: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
):
    BLOCKS: tl.constexpr = (D + BD - 1) // BD
    unit = tl.program_id(0) // BLOCKS
    first_channel = (tl.program_id(0) % BLOCKS) * BD
    o_d = first_channel + block_channels(BD, OWN)
    o_n = tl.arange(0, BN)
    m_n = o_n < N
    first, end = locate_unit(unit, None, time, segments, segment_length, False)
    b_rate = load_state(log_decay, o_d, o_n, D, N) * LOG2_E
    b_state = tl.zeros([BD, BN], dtype=tl.float32)
    b_product = b_state + 1.0
    next_x = load_own_rows(x, x_row, first_channel, first, end, D, BD, OWN, U)
    next_dt = load_own_rows(dt, dt_row, first_channel, first, end, D, BD, OWN, U)
    next_b = load_rows(b, b_row, o_n, m_n, first, end, U)
    for token in range(first, end, U):
        rows_x, rows_dt, rows_b = next_x, next_dt, next_b
        next_x = load_own_rows(x, x_row, first_channel, token + U, end, D, BD, OWN, U)
        next_dt = load_own_rows(dt, dt_row, first_channel, token + U, end, D, BD, OWN, U)
        next_b = load_rows(b, b_row, o_n, m_n, token + U, end, U)
        for u in tl.static_range(U):
            b_x, b_dt, b_b = rows_x[u].to(tl.float32), rows_dt[u].to(tl.float32), rows_b[u].to(tl.float32)
            b_state, b_exponential = advance(b_state, b_dt, b_x, b_b, b_rate, token + u < end, LOW, HIGH, EXACT)
            b_product = through_gate(b_exponential, b_product, token + u < end, LOW, HIGH, EXACT)
    place = unit.to(tl.int64) * D * N
    store_state(products + place, b_product, o_d, o_n, D, N)
    store_state(ends + place, b_state, o_d, o_n, D, N)


@triton.jit
def summary_back_kernel(
    dt,
    c,
    z,
    log_decay,
    dy,
    products,
    ends,
    dt_row,
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
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
    GATED: tl.constexpr,
):
    BLOCKS: tl.constexpr = (D + BD - 1) // BD
    unit = tl.program_id(0) // BLOCKS
    first_channel = (tl.program_id(0) % BLOCKS) * BD
    o_d = first_channel + block_channels(BD, OWN)
    o_n = tl.arange(0, BN)
    m_d, m_n = o_d < D, o_n < N
    first, end = locate_unit(unit, None, time, segments, segment_length, False)
    b_rate = load_state(log_decay, o_d, o_n, D, N) * LOG2_E
    b_adjoint = tl.zeros([BD, BN], dtype=tl.float32)
    b_product = b_adjoint + 1.0
    blocks = tl.cdiv(end - first, U)
    for step in range(blocks):
        token = first + (blocks - 1 - step) * U
        rows_dt = load_own_rows(dt, dt_row, first_channel, token, end, D, BD, OWN, U)
        rows_c = load_rows(c, c_row, o_n, m_n, token, end, U)
        rows_dy = load_rows(dy, D, o_d, m_d, token, end, U)
        if GATED:
            rows_z = load_rows(z, z_row, o_d, m_d, token, end, U)
        for u in tl.static_range(U - 1, -1, -1):
            b_read = rows_dy[u].to(tl.float32)
            if GATED:
                b_z = rows_z[u].to(tl.float32)
                b_read *= b_z * tl.sigmoid(b_z)
            b_exponential, inside = exponential(rows_dt[u].to(tl.float32), b_rate, LOW, HIGH), token + u < end
            b_adjoint += b_read[:, None] * rows_c[u].to(tl.float32)[None, :]
            b_adjoint = through_gate(b_exponential, b_adjoint, inside, LOW, HIGH, EXACT)
            b_product = through_gate(b_exponential, b_product, inside, LOW, HIGH, EXACT)
    place = unit.to(tl.int64) * D * N
    store_state(products + place, b_product, o_d, o_n, D, N)
    store_state(ends + place, b_adjoint, o_d, o_n, D, N)


@triton.jit
def join_kernel(
    products,
    ends,
    given,
    joined,
    segments,
    SIZE: tl.constexpr,  # D N
    BLOCK: tl.constexpr,
    GIVEN: tl.constexpr,  # whether a state (or a gradient) enters; zeros otherwise
    BACK: tl.constexpr,
):
    """Write joined[g], the state that enters segment g at its start or, if BACK, the gradient that enters at its end."""
    BLOCKS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    sequence = (tl.program_id(0) // BLOCKS).to(tl.int64)
    o = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    m = o < SIZE
    b_state = tl.zeros([BLOCK], dtype=tl.float32)
    if GIVEN:
        b_state += tl.load(given + sequence * SIZE + o, mask=m, other=0.0)
    for step in range(segments):
        segment = segments - 1 - step if BACK else step
        place = (sequence * segments + segment) * SIZE + o
        tl.store(joined + place, b_state, mask=m)
        b_product = tl.load(products + place, mask=m, other=0.0)
        b_state = b_product * b_state + tl.load(ends + place, mask=m, other=0.0)  # (6)
