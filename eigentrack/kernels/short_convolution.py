# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Short convolution, one filter a channel: y_t = bias + Σ_w weight_w x_{t+w}, and its gradients. Sums are float32.

    dx_t = Σ_w weight_w dy_{t-w}      dweight_w = Σ_t dy_t x_{t+w}      dbias = Σ_t dy_t

x [B, T+W-1, C] and y [B, T, C] are contiguous, weight [C, W].  B batch  T time  C channels  W width of the filter

A program owns some rows of one sequence in some channels; neighbours of a row come out of the cache.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, CHANNELS = 8, 128  # of a tile
SUMMED_ROWS, SUMMED_CHANNELS = 8, 64  # of a tile of the weights' gradient, which holds W rows for each of them
PROGRAMS = 256  # that share the sum over all rows


@triton.jit
def filter_kernel(
    x,
    weight,
    bias,
    y,
    rows_in,
    rows_out,
    channels,
    W: tl.constexpr,
    BIAS: tl.constexpr,
    BACK: tl.constexpr,  # x_{t-w} instead of x_{t+w}
    BT: tl.constexpr,
    BC: tl.constexpr,
):
    blocks = tl.cdiv(rows_out, BT)
    sequence = (tl.program_id(0) // blocks).to(tl.int64)
    o_t = (tl.program_id(0) % blocks) * BT + tl.arange(0, BT)
    o_c = tl.program_id(1) * BC + tl.arange(0, BC)
    m_c = o_c < channels
    b_y = tl.zeros([BT, BC], dtype=tl.float32)
    if BIAS:
        b_y += tl.load(bias + o_c, mask=m_c, other=0.0).to(tl.float32)[None, :]
    for w in tl.static_range(W):
        o_in = o_t - w if BACK else o_t + w
        m_in = (o_in >= 0) & (o_in < rows_in)
        p_x = x + (sequence * rows_in + o_in)[:, None] * channels + o_c[None, :]
        b_x = tl.load(p_x, mask=m_in[:, None] & m_c[None, :], other=0.0).to(tl.float32)
        b_y += b_x * tl.load(weight + o_c * W + w, mask=m_c, other=0.0).to(tl.float32)[None, :]
    p_y = y + (sequence * rows_out + o_t)[:, None] * channels + o_c[None, :]
    tl.store(p_y, b_y.to(y.dtype.element_ty), mask=(o_t < rows_out)[:, None] & m_c[None, :])


@triton.jit
def sums_kernel(
    x,
    dy,
    sums,
    sequences,
    rows_in,
    rows_out,
    channels,
    W: tl.constexpr,
    TERMS: tl.constexpr,  # a power of two above W: term w < W is dweight_w, term W is dbias
    BT: tl.constexpr,
    BC: tl.constexpr,
):
    o_c = tl.program_id(1) * BC + tl.arange(0, BC)
    o_w = tl.arange(0, TERMS)
    m_c = o_c < channels
    blocks = tl.cdiv(rows_out, BT)
    b_sums = tl.zeros([BT, TERMS, BC], dtype=tl.float32)
    for block in range(tl.program_id(0), sequences * blocks, tl.num_programs(0)):
        sequence = (block // blocks).to(tl.int64)
        o_t = (block % blocks) * BT + tl.arange(0, BT)
        m_dy = (o_t < rows_out)[:, None] & m_c[None, :]
        b_dy = tl.load(dy + (sequence * rows_out + o_t)[:, None] * channels + o_c[None, :], mask=m_dy, other=0.0)
        o_in = o_t[:, None] + o_w[None, :]
        m_x = ((o_in < rows_in) & (o_w < W)[None, :])[:, :, None] & m_c[None, None, :]
        p_x = x + (sequence * rows_in + o_in)[:, :, None] * channels + o_c[None, None, :]
        b_x = tl.load(p_x, mask=m_x, other=1.0)  # 1 in the term of the bias
        b_sums += b_x.to(tl.float32) * b_dy.to(tl.float32)[:, None, :]
    p_sums = sums + (tl.program_id(0) * TERMS + o_w)[:, None] * channels + o_c[None, :]
    tl.store(p_sums, tl.sum(b_sums, axis=0), mask=(o_w < TERMS)[:, None] & m_c[None, :])


def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.shape[1] - weight.shape[1] + 1
    return _filtered(x, weight, bias, rows, back=False)


def backward(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """dx, and in float32 the gradients of the W weights and of the bias, [terms, C] with rows to spare."""
    batch, rows_in, channels = x.shape
    width, rows_out = weight.shape[1], dy.shape[1]
    programs = min(PROGRAMS, batch * triton.cdiv(rows_out, SUMMED_ROWS))
    sums = x.new_empty(programs, terms(width), channels, dtype=torch.float32)
    sums_kernel[programs, triton.cdiv(channels, SUMMED_CHANNELS)](
        *(x, dy, sums, batch, rows_in, rows_out, channels),
        W=width,
        TERMS=sums.shape[1],
        BT=SUMMED_ROWS,
        BC=SUMMED_CHANNELS,
    )
    # one order of summation: the same bits in every run
    return _filtered(dy, weight, None, rows_in, back=True), sums.sum(0)


def terms(width: int) -> int:
    return triton.next_power_of_2(width + 1)


def _filtered(x: Tensor, weight: Tensor, bias: Tensor | None, rows_out: int, back: bool) -> Tensor:
    batch, rows_in, channels = x.shape
    y = x.new_empty(batch, rows_out, channels)
    filter_kernel[batch * triton.cdiv(rows_out, ROWS), triton.cdiv(channels, CHANNELS)](
        *(x, weight, weight if bias is None else bias, y, rows_in, rows_out, channels),
        W=weight.shape[1],
        BIAS=bias is not None,
        BACK=back,
        BT=ROWS,
        BC=CHANNELS,
    )
    return y
