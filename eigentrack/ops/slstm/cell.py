# mypy: disable-error-code="no-untyped-def, import-untyped"
"""One step of sLSTM on a block of sequences, and where the block's numbers lie in memory.

    m' = max(log σ(f) + m, i) (2),  k = e^(log σ(f) + m - m'),  w = e^(i - m') (3),  c' = k c + w tanh z,  n' = k n + w (4)

No exponential here has a positive argument: none overflows. Equations: docs/derivations/slstm.md.

S sequences  D head dim  BS, BD blocks of them, powers of two
"""

from __future__ import annotations

import triton
import triton.language as tl

SMALL = tl.constexpr(0.55)  # below it, tanh is computed as a polynomial: (1 - e)/(1 + e) would cancel


@triton.jit
def cell(b_z, b_i, b_f, b_c, b_n, b_m):
    """Return c', n' and m', and the intermediate values tanh z, k and w."""
    b_log_f = log_sigmoid(b_f) + b_m
    b_m_after = tl.maximum(b_log_f, b_i)
    b_keep, b_write = tl.exp(b_log_f - b_m_after), tl.exp(b_i - b_m_after)
    b_value = tanh(b_z)
    return b_keep * b_c + b_write * b_value, b_keep * b_n + b_write, b_m_after, b_value, b_keep, b_write


@triton.jit
def sigmoid(b_x):
    b_e = tl.exp(-tl.abs(b_x))
    return tl.where(b_x >= 0.0, 1.0, b_e) / (1.0 + b_e)


@triton.jit
def log_sigmoid(b_x):
    b_e = tl.exp(-tl.abs(b_x))
    b_series = b_e * (1.0 - b_e * (0.5 - b_e * (0.33333333 - 0.25 * b_e)))  # log(1 + e), where 1 + e would lose the digits of e
    return tl.minimum(b_x, 0.0) - tl.where(b_e < 0.01, b_series, tl.log(1.0 + b_e))


@triton.jit
def tanh(b_x):
    b_square = b_x * b_x
    b_tail = 0.016432009637355804 * b_square - 0.05266802757978439
    b_tail = (b_tail * b_square + 0.13320642709732056) * b_square - 0.3333294093608856  # right to 1e-7 below SMALL
    b_e = tl.exp(-2.0 * tl.abs(b_x))
    b_large = (1.0 - b_e) / (1.0 + b_e)
    b_large = tl.where(b_x < 0.0, -b_large, b_large)
    return tl.where(tl.abs(b_x) < SMALL, b_x + b_x * (b_square * b_tail), b_large)


@triton.jit
def locate(o_s, bounds, sequences, time, PACKED: tl.constexpr):
    """Return the first token and the length of each sequence of the block; the length is 0 beyond the last sequence."""
    o_s = o_s.to(tl.int64)
    if PACKED:
        first = tl.load(bounds + o_s, mask=o_s < sequences, other=0)
        return first, tl.load(bounds + o_s + 1, mask=o_s < sequences, other=0) - first
    return o_s * time, tl.where(o_s < sequences, time, 0).to(tl.int64)


@triton.jit
def load_rows(p, row, m_row, o_d, D: tl.constexpr):
    """Load a tile [BS, BD] in float32, zero beyond D and where a sequence has no token."""
    p_tile = p + row[:, None] * D + o_d[None, :]
    return tl.load(p_tile, mask=m_row[:, None] & (o_d < D)[None, :], other=0.0).to(tl.float32)


@triton.jit
def store_rows(p, b_x, row, m_row, o_d, D: tl.constexpr):
    p_tile = p + row[:, None] * D + o_d[None, :]
    tl.store(p_tile, b_x.to(p.dtype.element_ty), mask=m_row[:, None] & (o_d < D)[None, :])


@triton.jit
def load_four(p, row, m_row, o_d, D: tl.constexpr):
    """Load four tiles for one token of each sequence: (z, i, f, o), or (c, n, h, m)."""
    return (
        load_rows(p, row * 4, m_row, o_d, D),
        load_rows(p, row * 4 + 1, m_row, o_d, D),
        load_rows(p, row * 4 + 2, m_row, o_d, D),
        load_rows(p, row * 4 + 3, m_row, o_d, D),
    )


@triton.jit
def store_four(p, b_0, b_1, b_2, b_3, row, m_row, o_d, D: tl.constexpr):
    store_rows(p, b_0, row * 4, m_row, o_d, D)
    store_rows(p, b_1, row * 4 + 1, m_row, o_d, D)
    store_rows(p, b_2, row * 4 + 2, m_row, o_d, D)
    store_rows(p, b_3, row * 4 + 3, m_row, o_d, D)


@triton.jit
def load_blocks(recurrent, head, o_d, D: tl.constexpr):
    """Load the [BD, BD] blocks of R, or of R transposed, that belong to z, i, f and o of a head."""
    p = recurrent + head * 4 * D * D
    return (
        _load_block(p, o_d, D),
        _load_block(p + D * D, o_d, D),
        _load_block(p + 2 * D * D, o_d, D),
        _load_block(p + 3 * D * D, o_d, D),
    )


@triton.jit
def _load_block(p, o_d, D: tl.constexpr):
    return load_rows(p, o_d, o_d < D, o_d, D)
