# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
"""Selective scan, backward: a launch walks every unit (see tokens.py) against time with the adjoint ḣ in registers.

    ḣ_t = ṡ_t C_t + a_{t+1} ḣ_{t+1} (7),   ṡ_t = ẏ_t silu(z_t);   the gradients (8)-(12) of one token from ḣ_t, h_t and h_{t-1}

The states are computed again from the nearest checkpoint, or from the initial state, in three steps: to the start of a stretch
of tokens, from there to the current block of U tokens, and through this block, which gives every h_t. Where checkpoints are far
apart, the first step is taken once for all stretches between two of them, and the states at the starts of stretches are kept in
a few slots of memory that belong to one program.

Sums over channels (the gradients of B and C) are left as one partial sum per program, which takes TOGETHER blocks of channels
one after the other; sums over time (A and D) are left as one partial sum per unit. Both are added up in a fixed order
afterwards. The partial sums of all tokens could be larger than the gradients. So a launch takes only a window of every unit,
the last tokens first, and passes ḣ and the sums over time on to the next launch. (Packed sequences, whose lengths only the GPU
knows, have one window.) Equations: docs/derivations/selective_scan.md.

D channels  N state size  BD, BN blocks of them, powers of two  TOGETHER blocks of channels per program
U tokens per block  STRETCH tokens per stretch  STRIDE tokens per step on the way from stretch to stretch
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.selective_scan.tokens import (
    LOG2_E,
    advance,
    exponential,
    first_checkpoint,
    load_rows,
    load_state,
    locate_unit,
    store_state,
    through_gate,
)

LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def advance_to(
    b_state,
    start,
    token,
    x,
    dt,
    b,
    x_row,
    dt_row,
    b_row,
    o_d,
    o_n,
    m_d,
    m_n,
    b_rate,
    end,
    U: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Return the state before `token`, given the one before `start`; `token` is a multiple of U later, inside the unit."""
    for earlier in range(start, token, U):
        past_x = load_rows(x, x_row, o_d, m_d, earlier, end, U)
        past_dt = load_rows(dt, dt_row, o_d, m_d, earlier, end, U)
        past_b = load_rows(b, b_row, o_n, m_n, earlier, end, U)
        for u in tl.static_range(U):
            b_x, b_dt, b_b = past_x[u].to(tl.float32), past_dt[u].to(tl.float32), past_b[u].to(tl.float32)
            b_state, _ = advance(b_state, b_dt, b_x, b_b, b_rate, True, LOW, HIGH, EXACT)
    return b_state


@triton.jit
def load_start(
    starts, number, o_d, o_n, D: tl.constexpr, N: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr, START: tl.constexpr
):
    """Return the state before a chunk; it is zero if not START, for sequences of one chunk without an initial state."""
    if START:  # noqa: SIM108, Triton would add to None
        b_state = load_state(starts + number * D * N, o_d, o_n, D, N)
    else:
        b_state = tl.zeros([BD, BN], dtype=tl.float32)
    return b_state


@triton.jit(do_not_specialize=["goes_on"])  # otherwise a 1 would be compiled separately
def backward_kernel(
    x,
    dt,
    b,
    c,
    z,
    log_decay,
    skip,
    starts,
    dy,
    entering,
    leaving,
    dx,
    ddt,
    db_parts,
    dc_parts,
    dz,
    dlog_decay_parts,
    dskip_parts,
    kept,
    bounds,
    x_row,
    dt_row,
    b_row,
    c_row,
    z_row,
    time,
    segments,
    segment_length,
    window_start,
    window_length,
    goes_on,
    D: tl.constexpr,
    N: tl.constexpr,
    BD: tl.constexpr,
    BN: tl.constexpr,
    U: tl.constexpr,
    STRETCH: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
    PACKED: tl.constexpr,
    TOGETHER: tl.constexpr,  # blocks of channels per program
    KEPT: tl.constexpr,  # slots per program for the states at the starts of stretches, or 0
    START: tl.constexpr,  # whether `starts` has the states before chunks; zeros otherwise
    ENTER: tl.constexpr,  # whether a gradient enters at the end of the window
    LEAVE: tl.constexpr,  # whether the gradient at the start of the window is asked for
    GATED: tl.constexpr,
    SKIP: tl.constexpr,
):
    GROUPS: tl.constexpr = (D + BD * TOGETHER - 1) // (BD * TOGETHER)
    unit = tl.program_id(0) // GROUPS
    group = tl.program_id(0) % GROUPS
    o_n = tl.arange(0, BN)
    m_n = o_n < N
    first, end = locate_unit(unit, bounds, time, segments, segment_length, PACKED)
    slot = first_checkpoint(unit, first, time, segments, segment_length, CHUNK, PACKED)
    place = unit.to(tl.int64) * D * N
    own = tl.program_id(0).to(tl.int64) * KEPT - 1  # one before the program's first slot, since stretch 0 has no slot
    o_own = tl.arange(0, BD)

    begin = first + window_start
    stop = tl.minimum(begin + window_length, end)
    # the row that token 0 would have in the program's partial sums: windows of equal length, one after the other
    if PACKED:
        rows, row_of_zero = time, first * 0
    else:
        rows = tl.num_programs(0) // GROUPS * window_length
        row_of_zero = unit.to(tl.int64) * window_length - begin
    row_of_zero += group.to(tl.int64) * rows

    for block in range(TOGETHER):
        if TOGETHER > 1:
            tl.debug_barrier()  # this block adds to the partial sums that the previous one stored
        o_d = (group * TOGETHER + block) * BD + tl.arange(0, BD)
        m_d = o_d < D
        b_rate = load_state(log_decay, o_d, o_n, D, N) * LOG2_E
        b_adjoint = tl.zeros([BD, BN], dtype=tl.float32)
        b_dlog_decay = tl.zeros([BD, BN], dtype=tl.float32)
        b_dskip = tl.zeros([BD], dtype=tl.float32)
        if ENTER:
            b_adjoint += load_state(entering + place, o_d, o_n, D, N)
        if goes_on:
            b_dlog_decay += load_state(dlog_decay_parts + place, o_d, o_n, D, N)
        if SKIP:
            b_skip = tl.load(skip + o_d, mask=m_d, other=0.0).to(tl.float32)
            if goes_on:
                b_dskip += tl.load(dskip_parts + unit.to(tl.int64) * D + o_d, mask=m_d, other=0.0)

        chunks = tl.cdiv(tl.maximum(stop - begin, 0), CHUNK)
        for far in range(chunks):
            chunk = begin + (chunks - 1 - far) * CHUNK
            left = tl.minimum(stop - chunk, CHUNK).to(tl.int32)
            stretches = tl.cdiv(left, STRETCH)
            number = slot + (chunk - first) // CHUNK
            # from here on tokens are counted from the chunk's first, in 32 bits, to save instructions on addresses
            p_x, p_dt, p_b, p_c = x + chunk * x_row, dt + chunk * dt_row, b + chunk * b_row, c + chunk * c_row
            p_dy, p_dx, p_ddt = dy + chunk * D, dx + chunk * D, ddt + chunk * D
            p_db, p_dc = db_parts + (row_of_zero + chunk) * N, dc_parts + (row_of_zero + chunk) * N
            if GATED:
                p_z, p_dz = z + chunk * z_row, dz + chunk * D
            if KEPT:
                tl.debug_barrier()  # the slots may still be read for the previous chunk
                b_state = load_start(starts, number, o_d, o_n, D, N, BD, BN, START)
                for s in range(1, stretches):
                    b_state = advance_to(
                        b_state,
                        *((s - 1) * STRETCH, s * STRETCH),
                        *(p_x, p_dt, p_b, x_row, dt_row, b_row, o_d, o_n, m_d, m_n, b_rate, left),
                        *(STRIDE, LOW, HIGH, EXACT),
                    )
                    store_state(kept + (own + s) * BD * BN, b_state, o_own, o_n, BD, BN)
                tl.debug_barrier()
            for near in range(stretches):
                s = stretches - 1 - near
                stretch = s * STRETCH
                if KEPT:
                    if s > 0:
                        b_near = load_state(kept + (own + s) * BD * BN, o_own, o_n, BD, BN)
                    else:
                        b_near = load_start(starts, number, o_d, o_n, D, N, BD, BN, START)
                else:
                    b_near = advance_to(
                        load_start(starts, number, o_d, o_n, D, N, BD, BN, START),
                        *(0, stretch, p_x, p_dt, p_b, x_row, dt_row, b_row, o_d, o_n, m_d, m_n, b_rate, left),
                        *(U, LOW, HIGH, EXACT),
                    )
                blocks = tl.cdiv(tl.minimum(left - stretch, STRETCH), U)
                for step in range(blocks):
                    token = stretch + (blocks - 1 - step) * U
                    # loaded early, since they come from memory; the other rows were read on the way to this block
                    rows_c = load_rows(p_c, c_row, o_n, m_n, token, left, U)
                    rows_dy = load_rows(p_dy, D, o_d, m_d, token, left, U)
                    if GATED:
                        rows_z = load_rows(p_z, z_row, o_d, m_d, token, left, U)
                    b_state = advance_to(
                        b_near,
                        *(stretch, token, p_x, p_dt, p_b, x_row, dt_row, b_row, o_d, o_n, m_d, m_n, b_rate, left),
                        *(U, LOW, HIGH, EXACT),
                    )

                    rows_x = load_rows(p_x, x_row, o_d, m_d, token, left, U)
                    rows_dt = load_rows(p_dt, dt_row, o_d, m_d, token, left, U)
                    rows_b = load_rows(p_b, b_row, o_n, m_n, token, left, U)
                    states = (b_state,)  # states[u] is the state before token u
                    for u in tl.static_range(U):
                        b_x, b_dt, b_b = rows_x[u].to(tl.float32), rows_dt[u].to(tl.float32), rows_b[u].to(tl.float32)
                        b_state, _ = advance(b_state, b_dt, b_x, b_b, b_rate, token + u < left, LOW, HIGH, EXACT)
                        states = states + (b_state,)  # noqa: RUF005, Triton has no star in a tuple

                    for u in tl.static_range(U - 1, -1, -1):
                        b_x, b_dt, b_dy = rows_x[u].to(tl.float32), rows_dt[u].to(tl.float32), rows_dy[u].to(tl.float32)
                        b_b, b_c = rows_b[u].to(tl.float32), rows_c[u].to(tl.float32)
                        inside = token + u < left
                        m_out = m_d & inside
                        b_read = b_dy
                        if GATED:
                            b_z = rows_z[u].to(tl.float32)
                            b_sigmoid = tl.sigmoid(b_z)
                            b_y = tl.sum(states[u + 1] * b_c[None, :], axis=1)
                            if SKIP:
                                b_y += b_skip * b_x
                            b_dz = b_dy * b_y * b_sigmoid * (1.0 + b_z * (1.0 - b_sigmoid))  # (12)
                            tl.store(p_dz + (token + u) * D + o_d, b_dz.to(dz.dtype.element_ty), mask=m_out)
                            b_read *= b_z * b_sigmoid
                        b_adjoint += b_read[:, None] * b_c[None, :]  # (7)
                        o_part = (token + u) * N + o_n
                        b_dc = tl.sum(b_read[:, None] * states[u + 1], axis=0)
                        b_db = tl.sum((b_dt * b_x)[:, None] * b_adjoint, axis=0)  # (8)
                        if TOGETHER > 1:
                            b_dc += tl.load(p_dc + o_part, mask=m_n & inside & (block > 0), other=0.0)
                            b_db += tl.load(p_db + o_part, mask=m_n & inside & (block > 0), other=0.0)
                        tl.store(p_dc + o_part, b_dc, mask=m_n & inside)
                        tl.store(p_db + o_part, b_db, mask=m_n & inside)
                        b_exponential = exponential(b_dt, b_rate, LOW, HIGH)
                        b_through = b_adjoint * states[u] * b_exponential  # (9) times high - low
                        if HIGH - LOW != 1.0 and (LOW != -1.0 or HIGH != 1.0):
                            b_through *= HIGH - LOW
                        b_dlog_decay += b_through * b_dt[:, None]  # (10)
                        b_dinput = tl.sum(b_adjoint * b_b[None, :], axis=1)
                        b_ddt = b_dinput * b_x + LN_2 * tl.sum(b_through * b_rate, axis=1)  # (11)
                        tl.store(p_ddt + (token + u) * D + o_d, b_ddt.to(ddt.dtype.element_ty), mask=m_out)
                        b_dx = b_dinput * b_dt
                        if SKIP:
                            b_dx += b_read * b_skip
                            b_dskip += b_read * b_x
                        tl.store(p_dx + (token + u) * D + o_d, b_dx.to(dx.dtype.element_ty), mask=m_out)
                        b_adjoint = through_gate(b_exponential, b_adjoint, inside, LOW, HIGH, EXACT)
        store_state(dlog_decay_parts + place, b_dlog_decay, o_d, o_n, D, N)
        if SKIP:
            tl.store(dskip_parts + unit.to(tl.int64) * D + o_d, b_dskip, mask=m_d)
        if LEAVE:
            store_state(leaving + place, b_adjoint, o_d, o_n, D, N)


@triton.jit
def sum_kernel(
    db_parts,
    dc_parts,
    db,
    dc,
    parts,
    time,
    segments,
    segment_length,
    window_start,
    window_length,
    rows,
    N: tl.constexpr,
    BN: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Add up the partial sums of dB and dC, one per program that had some of a unit's channels, always in the same order.

    The rows of a window's tokens lie as `backward_kernel` writes them: windows of equal length, one unit after the other; for
    packed sequences, all tokens in their order.
    """
    pieces = tl.cdiv(window_length, ROWS)
    unit = tl.program_id(0) // pieces
    o_row = (tl.program_id(0) % pieces) * ROWS + tl.arange(0, ROWS)
    o_n = tl.arange(0, BN)
    first, end = locate_unit(unit, None, time, segments, segment_length, False)
    token = first + window_start + o_row
    mask = ((o_row < window_length) & (token < end))[:, None] & (o_n < N)[None, :]
    o = (unit.to(tl.int64) * window_length + o_row)[:, None] * N + o_n[None, :]
    o_part = tl.arange(0, PARTS).to(tl.int64)
    b_db = tl.zeros([ROWS, BN], dtype=tl.float32)
    b_dc = tl.zeros([ROWS, BN], dtype=tl.float32)
    for first_part in range(0, parts, PARTS):
        place = (first_part + o_part)[:, None, None] * rows * N + o[None]
        m_part = (first_part + o_part < parts)[:, None, None] & mask[None]
        b_db += tl.sum(tl.load(db_parts + place, mask=m_part, other=0.0), axis=0)
        b_dc += tl.sum(tl.load(dc_parts + place, mask=m_part, other=0.0), axis=0)
    p_out = token[:, None] * N + o_n[None, :]
    tl.store(db + p_out, b_db.to(db.dtype.element_ty), mask=mask)
    tl.store(dc + p_out, b_dc.to(dc.dtype.element_ty), mask=mask)
