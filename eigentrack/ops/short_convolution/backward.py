# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
# ruff: noqa: RUF005, Triton cannot unpack a tuple into another
"""Gradients of the short convolution and what follows it, from x and dy alone: u is made again. With e = z/|z|, s = σ(u),

    dz = scale (dy - e (e·dy)) / |z|, or scale dy                  du = dz s (1 + u (1 - s)), or dz
    dx_t = Σ_l tap_l du_{t+l} within the sequence                dtap_l = Σ_t du_t x_{t-l}          dbias = Σ_t du_t

A program walks down its stretches as in the forward pass. Beside the last rows of x it keeps W-1 gradients dx that are not yet
complete, and W-1 rows beyond its stretch to complete them. It adds its share of dtap and dbias up in registers.
The letters are those of the forward pass.
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.short_convolution.forward import (
    UNROLLED,
    VARYING,
    filtered,
    inverse_length,
    load_rows,
    load_taps,
    next_sequence,
    rows_before,
    sequence_at,
    sigmoid,
    with_window,
)


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
    """du from scale dy."""
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
    first_du,  # of the first W-1 rows of each sequence, [S, W-1, C]
    sums,  # of each program: dweight_0, ..., dweight_{W-1}, dbias
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
    WINDOW: tl.constexpr,  # whether its gradient is asked for
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
        # arrive while this row is computed
        b_next = load_rows(x, o_r + 1, m_next, o_c, m_c, x_row)
        b_next_dy = load_rows(dy, o_r + 1, m_next, o_c, m_c, channels)
        age += 1
        if may_start:
            is_start = o_r == end  # also past the end of all
            is_open = tl.where(is_start, 0.0, 1.0)[:, None]
            kept_dx = ()
            for lag in tl.static_range(1, W):  # what was open is complete: row t-lag of the sequence that ended
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
