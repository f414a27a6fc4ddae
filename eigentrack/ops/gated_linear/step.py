# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Gated linear attention for a single token without gradients, as in decoding: one launch, which reads and writes each state
once.

    S ← diag(a) S + k vᵀ;   y = Sᵀ q

A program owns a block of columns of one head's state. K key dim  V value dim  BK, BV blocks of K and V
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigentrack.ops.shared.tiles import load_row, load_tile, store_tile


@triton.jit
def step_kernel(
    q,
    k,
    v,
    a,
    initial_state,
    y,
    last_state,
    K: tl.constexpr,
    V: tl.constexpr,
    CHANNEL: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    INITIAL: tl.constexpr,
):
    BLOCKS: tl.constexpr = (V + BV - 1) // BV
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    o_k = tl.arange(0, BK)
    o_v = (tl.program_id(0) % BLOCKS) * BV + tl.arange(0, BV)
    b_state = load_row(k + pair * K, o_k, K)[:, None] * load_row(v + pair * V, o_v, V)[None, :]
    if INITIAL:
        b_start = load_tile(initial_state + pair * K * V, o_k, o_v, o_k < K, V)
        if CHANNEL:
            b_state += load_row(a + pair * K, o_k, K)[:, None] * b_start
        else:
            b_state += tl.load(a + pair).to(tl.float32) * b_start
    b_y = tl.sum(b_state * load_row(q + pair * K, o_k, K)[:, None], axis=0)
    tl.store(y + pair * V + o_v, b_y.to(y.dtype.element_ty), mask=o_v < V)
    store_tile(last_state + pair * K * V, b_state, o_k, o_v, o_k < K, V)
