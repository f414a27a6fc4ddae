# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Device functions that several ops share: they load, store and multiply tiles, and locate chunks of packed sequences.

C rows per chunk  N factors per token
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(b_left, b_right, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """Return left @ right in float32, with both operands cast to OPERAND."""
    return tl.dot(b_left.to(OPERAND), b_right.to(OPERAND), input_precision=PRECISION)


@triton.jit
def times(left, right):
    """Return left * right: with tl.reduce, the product of all entries."""
    return left * right


@triton.jit
def load_tile(p, o_row, o_column, m_row, WIDTH: tl.constexpr):
    """Load the rows o_row of a matrix with WIDTH columns; zero where there is no row or no column."""
    mask = m_row[:, None] & (o_column < WIDTH)[None, :]
    return tl.load(p + o_row[:, None] * WIDTH + o_column[None, :], mask=mask, other=0.0)


@triton.jit
def store_tile(p, b_value, o_row, o_column, m_row, WIDTH: tl.constexpr):
    mask = m_row[:, None] & (o_column < WIDTH)[None, :]
    tl.store(p + o_row[:, None] * WIDTH + o_column[None, :], b_value.to(p.dtype.element_ty), mask=mask)


@triton.jit
def load_columns(p, o_row, o_column, m_row, WIDTH: tl.constexpr):
    """Load the tile of `load_tile` transposed: rows of the matrix become columns."""
    mask = m_row[None, :] & (o_column < WIDTH)[:, None]
    return tl.load(p + o_row[None, :] * WIDTH + o_column[:, None], mask=mask, other=0.0)


@triton.jit
def store_columns(p, b_value, o_row, o_column, m_row, WIDTH: tl.constexpr):
    mask = m_row[None, :] & (o_column < WIDTH)[:, None]
    tl.store(p + o_row[None, :] * WIDTH + o_column[:, None], b_value.to(p.dtype.element_ty), mask=mask)


@triton.jit
def decay_matrix(b_g, C: tl.constexpr):
    """Return Γ of (1), zero above the diagonal, by one running product per column."""
    o = tl.arange(0, C)
    b_steps = tl.where(o[:, None] > o[None, :], b_g[:, None], 1.0)
    return tl.where(o[:, None] >= o[None, :], tl.cumprod(b_steps, axis=0), 0.0)


@triton.jit
def locate_chunk(slot, bounds, chunk_starts, chunk_sequence, time, C: tl.constexpr, N: tl.constexpr, PACKED: tl.constexpr):
    """Return a slot's first token in the whole input, and the number of its tokens: zero or less if the slot is unused."""
    TOKENS: tl.constexpr = C // N
    if PACKED:
        sequence = tl.load(chunk_sequence + slot)
        chunk = slot - tl.load(chunk_starts + sequence)
        start = tl.load(bounds + sequence).to(tl.int64)
        end = tl.load(bounds + sequence + 1).to(tl.int64)
    else:
        chunks = tl.cdiv(time, TOKENS)
        sequence = slot // chunks
        chunk = slot % chunks
        start = sequence.to(tl.int64) * time
        end = start + time
    first = start + chunk * TOKENS
    return first, tl.minimum(end - first, TOKENS).to(tl.int32)


@triton.jit
def locate_sequence(sequence, bounds, chunk_starts, time, C: tl.constexpr, N: tl.constexpr, PACKED: tl.constexpr):
    """Return a sequence's first token, its length, and the slot of its first chunk."""
    if PACKED:
        start = tl.load(bounds + sequence).to(tl.int64)
        length = (tl.load(bounds + sequence + 1).to(tl.int64) - start).to(tl.int32)
        slot = tl.load(chunk_starts + sequence).to(tl.int64)
    else:
        start = sequence.to(tl.int64) * time
        length = time
        slot = sequence.to(tl.int64) * tl.cdiv(time, C // N)
    return start, length, slot


@triton.jit
def load_row(p, o_column, WIDTH: tl.constexpr):
    return tl.load(p + o_column, mask=o_column < WIDTH, other=0.0).to(tl.float32)
