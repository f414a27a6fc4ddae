# mypy: disable-error-code="no-untyped-def, import-untyped"
"""The partial sums of dB and dC, one for each program that had some of a unit's channels, added up: always in the same order.

Rows of a window's tokens lie as `selective_scan_backward.py` writes them: windows of one length, one unit below the other; of
packed sequences all tokens as they come.

N state size  ROWS, PARTS rows and parts of a sum at a time
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.selective_scan.tokens import locate_unit


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
