# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
"""What every selective-scan kernel does with a block of U tokens, for BD channels and all N state indices, in float32:

    e_t = exp2(Δ_t A log₂e)                     (1)  one exponential for each (t, d, n)
    a_t = low + (high - low) e_t                (2)  both ends of the range exact
    h_t = a_t h_{t-1} + (Δ_t x_t) B_t           (3)

A unit is what one program walks through: a whole sequence, or a segment of one. A row is one token's entries of a tensor;
rows of the inputs may lie apart. Beyond the unit's end rows read as zeros, so e = 1, and (2') a = 1: the state stays.
Equations: docs/derivations/selective_scan.md.

D channels  N state size  BD, BN blocks of them, powers of two  U tokens a block
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def locate_unit(unit, bounds, time, segments, segment_length, PACKED: tl.constexpr):
    """The unit's first token and the token after its last, counted over all sequences."""
    if PACKED:
        first, end = tl.load(bounds + unit), tl.load(bounds + unit + 1)
    else:
        sequence = (unit // segments).to(tl.int64)
        first = sequence * time + (unit % segments) * segment_length
        end = tl.minimum(first + segment_length, (sequence + 1) * time)
    return first, end


@triton.jit
def first_checkpoint(unit, first, time, segments, segment_length, CHUNK: tl.constexpr, PACKED: tl.constexpr):
    """Where the unit's checkpoints begin. Sequence s, from token t on, has its own from t // CHUNK + s: they never meet."""
    if PACKED:
        slot = first // CHUNK + unit
    else:
        sequence = (unit // segments).to(tl.int64)
        slot = sequence * time // CHUNK + sequence + (unit % segments) * segment_length // CHUNK
    return slot


@triton.jit
def load_row(p, row, o, m, token, end):
    return tl.load(p + token * row + o, mask=m & (token < end), other=0.0)


@triton.jit
def load_rows(p, row, o, m, token, end, U: tl.constexpr):
    """U rows as a tuple: all loads are on their way before the first is used."""
    rows = ()
    for u in tl.static_range(U):
        rows = rows + (load_row(p, row, o, m, token + u, end),)  # noqa: RUF005, Triton has no star in a tuple
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
def exponential(b_dt, b_rate):
    return tl.exp2(b_dt[:, None] * b_rate)


@triton.jit
def eigenvalue(b_exponential, inside, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr):
    """(2). EXACT: high - low is a float32, and one multiply-add meets both ends."""
    if EXACT:  # noqa: SIM108
        b_gate = b_exponential * (HIGH - LOW) + LOW
    else:
        b_gate = b_exponential * HIGH + (LOW - b_exponential * LOW)
    if HIGH != 1.0:
        b_gate = tl.where(inside, b_gate, 1.0)  # (2')
    return b_gate


@triton.jit
def advance(b_state, b_dt, b_x, b_b, b_rate, inside, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr):
    """(3), and the gate."""
    b_gate = eigenvalue(exponential(b_dt, b_rate), inside, LOW, HIGH, EXACT)
    return b_gate * b_state + (b_dt * b_x)[:, None] * b_b[None, :], b_gate
