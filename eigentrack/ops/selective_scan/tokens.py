# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
"""Device functions for a block of U tokens, BD channels and all N state indices, in float32, which every kernel uses:

    e_t = exp2(Δ_t A log₂e)                     (1)  one exponential for each (t, d, n)
    a_t = low + (high - low) e_t                (2)  both ends of the range exact
    h_t = a_t h_{t-1} + (Δ_t x_t) B_t           (3)

A unit is what one program walks through: a whole sequence, or a segment of one. A row is one token's entries of a tensor;
rows of the inputs may lie apart. Beyond the unit's end rows are read as zeros, so e = 1, and a is set to 1 (2'): the state
    stays.
Equations: docs/derivations/selective_scan.md.

A program is one warp. Rows of channels are loaded in two ways: `load_rows` gives each thread one channel, for what is computed
and written channel by channel; `load_own_rows` gives each thread the OWN channels whose states it holds.

D channels  N state size  BD, BN blocks of them, powers of two  OWN channels per thread  U tokens per block
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def locate_unit(unit, bounds, time, segments, segment_length, PACKED: tl.constexpr):
    """Return the unit's first token and the token after its last one, counted over all sequences."""
    if PACKED:
        first, end = tl.load(bounds + unit), tl.load(bounds + unit + 1)
    else:
        sequence = (unit // segments).to(tl.int64)
        first = sequence * time + (unit % segments) * segment_length
        end = tl.minimum(first + segment_length, (sequence + 1) * time)
    return first, end


@triton.jit
def first_checkpoint(unit, first, time, segments, segment_length, CHUNK: tl.constexpr, PACKED: tl.constexpr):
    """Return the place of the unit's first checkpoint.

    A packed sequence s that starts at token t has its first at t // CHUNK + s, so that no two sequences share a place.
    """
    if PACKED:
        slot = first // CHUNK + unit
    else:
        sequence = (unit // segments).to(tl.int64)
        slot = sequence * tl.cdiv(time, CHUNK) + (unit % segments) * segment_length // CHUNK
    return slot


@triton.jit
def load_row(p, row, o, m, token, end):
    return tl.load(p + token * row + o, mask=m & (token < end), other=0.0)


@triton.jit
def load_rows(p, row, o, m, token, end, U: tl.constexpr):
    """Load U rows as a tuple: all loads start before the first row is used."""
    rows = ()
    for u in tl.static_range(U):
        rows = rows + (load_row(p, row, o, m, token + u, end),)  # noqa: RUF005, Triton has no star in a tuple
    return rows


@triton.jit
def block_channels(BD: tl.constexpr, OWN: tl.constexpr):
    """Return the channels of a block in the order of the rows of its state: those of one thread are neighbours."""
    rows = tl.arange(0, BD)
    return rows % (BD // OWN) * OWN + rows // (BD // OWN)


@triton.jit
def load_own_row(p, row, first_channel, token, end, D: tl.constexpr, BD: tl.constexpr, OWN: tl.constexpr):
    """Load a row of channels so that each thread loads those whose states it holds.

    The row is loaded in two halves: if there are fewer entries than threads, Triton makes each thread load its own; if there
    are more, it exchanges them between threads.
    """
    if OWN == 1:
        o_d = first_channel + block_channels(BD, OWN)
        b_row = load_row(p, row, o_d, o_d < D, token, end)
    else:
        HALF: tl.constexpr = OWN // 2
        o_d = first_channel + tl.arange(0, BD // OWN)[:, None] * OWN + tl.arange(0, HALF)[None, :]
        p_low = p + token * row + o_d
        low = tl.load(p_low, mask=(o_d < D) & (token < end), other=0.0)
        high = tl.load(p_low + HALF, mask=(o_d + HALF < D) & (token < end), other=0.0)
        b_row = tl.reshape(tl.permute(tl.join(low, high), (2, 1, 0)), (BD,))
    return b_row


@triton.jit
def load_own_rows(p, row, first_channel, token, end, D: tl.constexpr, BD: tl.constexpr, OWN: tl.constexpr, U: tl.constexpr):
    """Load U rows as a tuple, as `load_own_row` does."""
    rows = ()
    for u in tl.static_range(U):
        rows = rows + (load_own_row(p, row, first_channel, token + u, end, D, BD, OWN),)  # noqa: RUF005
    return rows


@triton.jit
def load_state(p, o_d, o_n, D: tl.constexpr, N: tl.constexpr):
    mask = (o_d < D)[:, None] & (o_n < N)[None, :]
    return tl.load(p + o_d[:, None] * N + o_n[None, :], mask=mask, other=0.0).to(tl.float32)


@triton.jit
def store_state(p, b_state, o_d, o_n, D: tl.constexpr, N: tl.constexpr):
    mask = (o_d < D)[:, None] & (o_n < N)[None, :]
    tl.store(p + o_d[:, None] * N + o_n[None, :], b_state, mask=mask)


@triton.jit
def exponential(b_dt, b_rate, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Return e of (1), or 2 e for the range [-1, 1]: the factor 2 is a 1 in the exponent, which its multiply-add takes up."""
    b_exponent = b_dt[:, None] * b_rate
    return tl.exp2(b_exponent + 1.0) if LOW == -1.0 and HIGH == 1.0 else tl.exp2(b_exponent)


@triton.jit
def through_gate(b_exponential, b_value, inside, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr):
    """Return a of (2) times a value, with a exact to the last bit at both ends of the range.

    EXACT says that high - low is exact in float32, so that one multiply-add gives both ends.
    """
    if LOW == -1.0 and HIGH == 1.0:
        b_found = b_exponential * b_value - b_value
    elif LOW == 0.0 and HIGH == 1.0:
        b_found = b_exponential * b_value
    elif EXACT:
        b_found = (b_exponential * (HIGH - LOW) + LOW) * b_value
    else:
        b_found = (b_exponential * HIGH + (LOW - b_exponential * LOW)) * b_value
    if HIGH != 1.0:
        b_found = tl.where(inside, b_found, b_value)  # (2')
    return b_found


@triton.jit
def advance(b_state, b_dt, b_x, b_b, b_rate, inside, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr):
    """Return the next state (3), and the exponential."""
    b_exponential, b_input = exponential(b_dt, b_rate, LOW, HIGH), (b_dt * b_x)[:, None] * b_b[None, :]
    if LOW == -1.0 and HIGH == 1.0:
        b_new = b_exponential * b_state + (b_input - b_state)  # two multiply-adds, as for [0, 1]
    else:
        b_new = through_gate(b_exponential, b_state, inside, LOW, HIGH, EXACT) + b_input
    return b_new, b_exponential
