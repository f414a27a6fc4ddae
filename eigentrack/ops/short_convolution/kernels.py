# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
# ruff: noqa: RUF005, Triton cannot unpack a tuple into another
"""Short convolution with one filter per channel, and what follows it: u_t = bias + Σ_l tap_l x_{t-l},  tap_l = weight_{W-1-l}.

    z = silu(u), or u          y = scale z / max(|z|, 1e-6), |z| the length of a head's row, or scale z

Rows lie end to end, [R, C]. A program walks down BS stretches of rows at once, row by row, in one tile of channels; the last
W-1 rows of x stay in registers, and where a sequence starts, its window replaces them. Sums are float32.

The gradients need only x and dy: u is computed again. With e = z/|z|, s = σ(u),

    dz = scale (dy - e (e·dy)) / |z|, or scale dy                  du = dz s (1 + u (1 - s)), or dz
    dx_t = Σ_l tap_l du_{t+l} within the sequence                dtap_l = Σ_t du_t x_{t-l}          dbias = Σ_t du_t

A program walks down its stretches as in the forward pass. Beside the last rows of x it keeps W-1 gradients dx that are not yet
complete, and walks W-1 rows beyond its stretch to complete them. It adds up its share of dtap and dbias in registers.

Equations: docs/derivations/short_convolution.md.

R rows  C channels  W width of the filter  S sequences
D channels per tile: those of a head, where rows get length one  BC: D up to a power of two
"""

from __future__ import annotations

import triton
import triton.language as tl

VARYING = ["rows", "time", "length"]  # these change with every batch, for which no kernel should be compiled again
SMALLEST_SQUARE = tl.constexpr(1e-12)  # the least square of the length that a row is divided by
TINY = tl.constexpr(1.1754943508222875e-38)
MINUS_LOG2_E = tl.constexpr(-1.4426950408889634)
UNROLLED = tl.constexpr(2)  # rows per iteration: saves moves between registers, as each row becomes the row before


@triton.jit
def sequence_at(o_r, m_r, time, sequence_of, bounds, PACKED: tl.constexpr):
    """Return the number of the sequence that a row is in, the row where it starts, and the row where the next one starts."""
    if PACKED:
        sequence = tl.load(sequence_of + o_r, mask=m_r, other=0)
        start, end = tl.load(bounds + sequence), tl.load(bounds + sequence + 1)
    else:
        sequence = o_r // time
        start = sequence * time
        end = start + time
    return sequence, start, end


@triton.jit
def next_sequence(sequence, end, is_start, m_r, time, bounds, PACKED: tl.constexpr):
    """Return the number and the end of the current sequence: those of the next one where `is_start`."""
    sequence += is_start.to(tl.int32)
    end = tl.load(bounds + sequence + 1, mask=is_start & m_r, other=end) if PACKED else tl.where(is_start, end + time, end)
    return sequence, end


@triton.jit
def load_rows(x, o_r, m_r, o_c, m_c, row):
    """Load a tile [BS, BC], 0 where the masks are false."""
    return tl.load(x + o_r.to(tl.int64)[:, None] * row + o_c[None, :], mask=m_r[:, None] & m_c[None, :], other=0.0)


@triton.jit
def load_taps(weight, o_c, m_c, W: tl.constexpr):
    """Load tap_0, ..., tap_{W-1}, each [1, BC]."""
    taps = ()
    for lag in tl.static_range(W):
        taps = taps + (tl.load(weight + o_c * W + (W - 1 - lag), mask=m_c, other=0.0).to(tl.float32)[None, :],)
    return taps


@triton.jit
def rows_before(x, first, m_r, age, o_c, m_c, x_row, W: tl.constexpr):
    """Load x_{t-1}, ..., x_{t-W+1} for each stretch's first row t; 0 for rows before the start of the sequence."""
    past = ()
    for lag in tl.static_range(1, W):
        past = past + (load_rows(x, first - lag, m_r & (age >= lag), o_c, m_c, x_row).to(tl.float32),)
    return past


@triton.jit
def with_window(past, window, sequence, age, is_meant, o_c, m_c, window_row, window_sequence, W: tl.constexpr):
    """Return the rows before, with those before the start of the sequence from its window, where `is_meant`.

    x_{t-l} is row W-1+age-l of the window.
    """
    whole = ()
    for lag in tl.static_range(1, W):
        m_w = is_meant & (age < lag)
        o_w = sequence.to(tl.int64) * window_sequence + (W - 1 + age - lag) * window_row
        b_w = tl.load(window + o_w[:, None] + o_c[None, :], mask=m_w[:, None] & m_c[None, :], other=0.0).to(tl.float32)
        whole = whole + (tl.where(m_w[:, None], b_w, past[lag - 1]),)
    return whole


@triton.jit
def filtered(rows, taps, b_bias, W: tl.constexpr, BIAS: tl.constexpr):
    """Return u, from x_t, x_{t-1}, ..., x_{t-W+1}."""
    b_u = rows[0] * taps[0]
    for lag in tl.static_range(1, W):
        b_u += rows[lag] * taps[lag]
    if BIAS:
        b_u += b_bias
    return b_u


@triton.jit
def sigmoid(b_u):
    """Return σ(u) as the square of a reciprocal root, which takes two instructions where a quotient takes five."""
    root = tl.rsqrt(1 + tl.exp2(b_u * MINUS_LOG2_E))
    return root * root


@triton.jit
def inverse_length(b_z):
    """Return 1 / max(|z|, 1e-6) of each row, and whether |z| is the larger of the two.

    One step of Newton's method refines it, since |k|² must be 1 to the last bits.
    """
    square = tl.sum(b_z * b_z, axis=1)
    floored = tl.maximum(square, SMALLEST_SQUARE)
    inverse = tl.rsqrt(floored)
    return inverse * (1.5 - 0.5 * floored * inverse * inverse), square > SMALLEST_SQUARE


@triton.jit(do_not_specialize=VARYING)
def forward_kernel(
    x,
    window,
    weight,
    bias,
    sequence_of,
    bounds,
    y,
    rounding,
    rows,
    time,
    channels,
    x_row,
    window_row,
    window_sequence,
    scale,
    length,  # rows per stretch
    W: tl.constexpr,
    BIAS: tl.constexpr,
    PACKED: tl.constexpr,
    SILU: tl.constexpr,
    UNIT: tl.constexpr,
    D: tl.constexpr,
    BS: tl.constexpr,
    BC: tl.constexpr,
):
    columns = tl.cdiv(channels, D)
    column = tl.program_id(0) % columns
    first = ((tl.program_id(0) // columns) * BS + tl.arange(0, BS)) * length
    o_c = column * D + tl.arange(0, BC)
    m_r, m_c = first < rows, (tl.arange(0, BC) < D) & (o_c < channels)
    sequence, start, end = sequence_at(first, m_r, time, sequence_of, bounds, PACKED)
    may_start = tl.max((m_r & (first + length > end)).to(tl.int32), axis=0) > 0
    age = first - start
    past = rows_before(x, first, m_r, age, o_c, m_c, x_row, W)
    past = with_window(past, window, sequence, age, m_r, o_c, m_c, window_row, window_sequence, W)
    taps = load_taps(weight, o_c, m_c, W)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(tl.float32)[None, :] if BIAS else 0.0
    b_next = load_rows(x, first, m_r, o_c, m_c, x_row)
    for i in tl.range(length, loop_unroll_factor=UNROLLED):
        o_r = first + i
        m_r = o_r < rows
        b_x = b_next.to(tl.float32)
        # the next row arrives while this one is computed
        b_next = load_rows(x, o_r + 1, (o_r + 1 < rows) & (i + 1 < length), o_c, m_c, x_row)
        if may_start:
            is_start = o_r == end
            age = tl.where(is_start, 0, age + 1)
            sequence, end = next_sequence(sequence, end, is_start, m_r, time, bounds, PACKED)
            past = with_window(past, window, sequence, age, is_start & m_r, o_c, m_c, window_row, window_sequence, W)
        seen = (b_x,) + past
        past = seen[: W - 1]
        b_y = filtered(seen, taps, b_bias, W, BIAS)
        if SILU:
            b_y *= sigmoid(b_y)
        if UNIT:
            inverse, _ = inverse_length(b_y)
            b_y *= inverse[:, None]
        b_y *= scale
        b_rounded = b_y.to(y.dtype.element_ty)
        tl.store(y + o_r.to(tl.int64)[:, None] * channels + o_c[None, :], b_rounded, mask=m_r[:, None] & m_c[None, :])
        if UNIT:  # the squared length before rounding over the one after it
            b_after = b_rounded.to(tl.float32)
            before, after = tl.sum(b_y * b_y, axis=1), tl.sum(b_after * b_after, axis=1)
            b_rounding = tl.maximum(before, TINY) / tl.maximum(after, TINY)
            # as a tile of which only the first column is stored: to store a vector would move rows through shared memory
            p_rounding = rounding + (o_r.to(tl.int64) * columns + column)[:, None] + tl.zeros([1, BC], tl.int32)
            tl.store(p_rounding, b_rounding[:, None], mask=m_r[:, None] & (tl.arange(0, BC) == 0)[None, :])


@triton.jit
def zeros(BS: tl.constexpr, BC: tl.constexpr, COUNT: tl.constexpr):
    tiles = ()
    for _ in tl.static_range(COUNT):
        tiles = tiles + (tl.zeros([BS, BC], dtype=tl.float32),)
    return tiles


@triton.jit
def store_rows(x, b_x, o_r, m_r, o_c, m_c, row):
    p_x = x + o_r.to(tl.int64)[:, None] * row + o_c[None, :]
    tl.store(p_x, b_x.to(x.dtype.element_ty), mask=m_r[:, None] & m_c[None, :])


@triton.jit
def before_the_filter(b_dy, b_u, SILU: tl.constexpr, UNIT: tl.constexpr):
    """Return du, the gradient of u, from scale dy."""
    b_s = sigmoid(b_u)
    b_du = b_dy
    if UNIT:
        b_z = b_u * b_s if SILU else b_u
        inverse, is_divided = inverse_length(b_z)
        b_e = b_z * inverse[:, None]
        along = tl.where(is_divided, tl.sum(b_e * b_dy, axis=1), 0.0)
        b_du = (b_dy - b_e * along[:, None]) * inverse[:, None]
    if SILU:
        b_du *= b_s * (1 + b_u * (1 - b_s))
    return b_du


@triton.jit(do_not_specialize=VARYING)
def backward_kernel(
    x,
    window,
    weight,
    bias,
    sequence_of,
    bounds,
    dy,
    dx,
    first_du,  # du of the first W-1 rows of each sequence, [S, W-1, C]
    sums,  # for each program: dweight_0, ..., dweight_{W-1}, dbias
    rows,
    time,
    channels,
    x_row,
    window_row,
    window_sequence,
    scale,
    length,
    W: tl.constexpr,
    BIAS: tl.constexpr,
    PACKED: tl.constexpr,
    SILU: tl.constexpr,
    UNIT: tl.constexpr,
    WINDOW: tl.constexpr,  # whether the window's gradient is asked for
    D: tl.constexpr,
    BS: tl.constexpr,
    BC: tl.constexpr,
):
    columns = tl.cdiv(channels, D)
    program = tl.program_id(0) // columns
    first = (program * BS + tl.arange(0, BS)) * length
    o_c = (tl.program_id(0) % columns) * D + tl.arange(0, BC)
    m_r, m_c = first < rows, (tl.arange(0, BC) < D) & (o_c < channels)
    sequence, start, end = sequence_at(first, m_r, time, sequence_of, bounds, PACKED)
    may_start = tl.max((m_r & (first + length + W - 1 > end)).to(tl.int32), axis=0) > 0
    age = first - start
    past = rows_before(x, first, m_r, age, o_c, m_c, x_row, W)
    past = with_window(past, window, sequence, age, m_r, o_c, m_c, window_row, window_sequence, W)
    taps = load_taps(weight, o_c, m_c, W)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(tl.float32)[None, :] if BIAS else 0.0
    open_dx, b_dtaps, b_dbias = zeros(BS, BC, W - 1), zeros(BS, BC, W), zeros(BS, BC, 1)[0]
    b_next, b_next_dy = load_rows(x, first, m_r, o_c, m_c, x_row), load_rows(dy, first, m_r, o_c, m_c, channels)
    age -= 1
    for i in tl.range(length + W - 1, loop_unroll_factor=UNROLLED):
        o_r = first + i
        m_r = o_r < rows
        b_x, b_dy = b_next.to(tl.float32), b_next_dy.to(tl.float32) * scale
        m_next = (o_r + 1 < rows) & (i + 2 < length + W)
        # the next rows arrive while these are computed
        b_next = load_rows(x, o_r + 1, m_next, o_c, m_c, x_row)
        b_next_dy = load_rows(dy, o_r + 1, m_next, o_c, m_c, channels)
        age += 1
        if may_start:
            is_start = o_r == end  # also true just past the end of the last sequence
            is_open = tl.where(is_start, 0.0, 1.0)[:, None]
            kept_dx = ()
            for lag in tl.static_range(1, W):  # complete now: row t-lag of the sequence that ended
                m_done = is_start & (age >= lag) & (o_r - lag < rows) & (i >= lag) & (i < length + lag)
                store_rows(dx, open_dx[lag - 1], o_r - lag, m_done, o_c, m_c, channels)
                kept_dx = kept_dx + (open_dx[lag - 1] * is_open,)
            open_dx = kept_dx
            age = tl.where(is_start, 0, age)
            sequence, end = next_sequence(sequence, end, is_start, m_r, time, bounds, PACKED)
            past = with_window(past, window, sequence, age, is_start & m_r, o_c, m_c, window_row, window_sequence, W)
        seen = (b_x,) + past
        past = seen[: W - 1]
        b_du = before_the_filter(b_dy, filtered(seen, taps, b_bias, W, BIAS), SILU, UNIT)
        if i < length:
            summed = ()
            for lag in tl.static_range(W):
                summed = summed + (b_dtaps[lag] + b_du * seen[lag],)
            b_dtaps = summed
            b_dbias += b_du
            if WINDOW:
                m_first = m_r & (age < W - 1)
                store_rows(first_du, b_du, sequence * (W - 1) + age, m_first, o_c, m_c, channels)
        added = (b_du * taps[0],)
        for lag in tl.static_range(1, W):
            added = added + (open_dx[lag - 1] + b_du * taps[lag],)
        open_dx = added[: W - 1]
        m_done = m_r & (age >= W - 1) & (i >= W - 1)
        store_rows(dx, added[W - 1], o_r - (W - 1), m_done, o_c, m_c, channels)
    TERMS: tl.constexpr = W + BIAS
    p_sums = sums + program * TERMS * channels + o_c
    for lag in tl.static_range(W):
        tl.store(p_sums + (W - 1 - lag) * channels, tl.sum(b_dtaps[lag], axis=0), mask=m_c)
    if BIAS:
        tl.store(p_sums + W * channels, tl.sum(b_dbias, axis=0), mask=m_c)
