# mypy: disable-error-code="no-untyped-def, import-untyped, assignment"
"""Selective scan for a single token without gradients, as in decoding: one launch, which reads and writes each state once.

    a = low + (high - low) exp(Δ A)  (1, 2),    h ← a h + Δ x B  (3),    y = (Σ_n C h + D x) silu(z)  (4)

A program owns the same channels of BS sequences, so that A is read once for them. It starts all loads before it uses the first
one, so it waits for memory only once. Where BS does not divide the number of sequences, the last program takes the last
sequence again and writes the same numbers to the same place. Equations: docs/derivations/selective_scan.md.

S sequences  D channels  N state size  BS, BD, BN blocks of them, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.selective_scan.tokens import LOG2_E, advance, load_state, store_state


@triton.jit
def load_rows(p, row, o, m, sequences):
    """Load one row per sequence, as a tuple."""
    rows = ()
    for s in tl.static_range(len(sequences)):
        rows = rows + (tl.load(p + sequences[s] * row + o, mask=m, other=0.0),)  # noqa: RUF005, Triton has no star in a tuple
    return rows


@triton.jit
def step_kernel(
    x,
    dt,
    b,
    c,
    z,
    log_decay,
    skip,
    initial_state,
    y,
    last_state,
    x_row,
    dt_row,
    b_row,
    c_row,
    z_row,
    S,
    D: tl.constexpr,
    N: tl.constexpr,
    BS: tl.constexpr,
    BD: tl.constexpr,
    BN: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    EXACT: tl.constexpr,
    INITIAL: tl.constexpr,
    GATED: tl.constexpr,
    SKIP: tl.constexpr,
):
    BLOCKS: tl.constexpr = (D + BD - 1) // BD
    first = (tl.program_id(0) // BLOCKS) * BS
    o_d = (tl.program_id(0) % BLOCKS) * BD + tl.arange(0, BD)
    o_n = tl.arange(0, BN)
    m_d, m_n = o_d < D, o_n < N

    sequences, states = (), ()
    for s in tl.static_range(BS):
        sequence = tl.minimum(first + s, S - 1).to(tl.int64)
        if INITIAL:
            b_state = load_state(initial_state + sequence * D * N, o_d, o_n, D, N)
        else:
            b_state = tl.zeros([BD, BN], dtype=tl.float32)
        sequences, states = sequences + (sequence,), states + (b_state,)  # noqa: RUF005
    b_rate = load_state(log_decay, o_d, o_n, D, N) * LOG2_E
    rows_x, rows_dt = load_rows(x, x_row, o_d, m_d, sequences), load_rows(dt, dt_row, o_d, m_d, sequences)
    rows_b, rows_c = load_rows(b, b_row, o_n, m_n, sequences), load_rows(c, c_row, o_n, m_n, sequences)
    if GATED:
        rows_z = load_rows(z, z_row, o_d, m_d, sequences)
    if SKIP:
        b_skip = tl.load(skip + o_d, mask=m_d, other=0.0).to(tl.float32)

    for s in tl.static_range(BS):
        b_x, b_dt, b_b = rows_x[s].to(tl.float32), rows_dt[s].to(tl.float32), rows_b[s].to(tl.float32)
        b_state, _ = advance(states[s], b_dt, b_x, b_b, b_rate, True, LOW, HIGH, EXACT)
        store_state(last_state + sequences[s] * D * N, b_state, o_d, o_n, D, N)
        b_y = tl.sum(b_state * rows_c[s].to(tl.float32)[None, :], axis=1)  # (4)
        if SKIP:
            b_y += b_skip * b_x
        if GATED:
            b_z = rows_z[s].to(tl.float32)
            b_y *= b_z * tl.sigmoid(b_z)
        tl.store(y + sequences[s] * D + o_d, b_y.to(y.dtype.element_ty), mask=m_d)
