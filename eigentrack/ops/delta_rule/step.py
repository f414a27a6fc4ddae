# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Delta rule for a single token without gradients, as in decoding: one launch, which reads and writes each state once.

    S ← g S;   x = v - Sᵀk,   S ← S + b k xᵀ   for each factor;   y = Sᵀ q

A program owns a block of columns of one head's state. H heads  N factors  K key dim  V value dim  BK, BV blocks of K and V
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
    beta,
    gate,
    initial_state,
    y,
    last_state,
    N: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    GATED: tl.constexpr,
    INITIAL: tl.constexpr,
):
    BLOCKS: tl.constexpr = (V + BV - 1) // BV
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    o_k = tl.arange(0, BK)
    o_v = (tl.program_id(0) % BLOCKS) * BV + tl.arange(0, BV)
    b_state = tl.zeros([BK, BV], dtype=tl.float32)
    if INITIAL:
        b_state += load_tile(initial_state + pair * K * V, o_k, o_v, o_k < K, V)
    if GATED:
        b_state *= tl.load(gate + pair).to(tl.float32)
    for factor in tl.static_range(N):
        row = pair * N + factor
        b_k = load_row(k + row * K, o_k, K)
        b_error = load_row(v + row * V, o_v, V) - tl.sum(b_state * b_k[:, None], axis=0)
        b_state += b_k[:, None] * (tl.load(beta + row).to(tl.float32) * b_error)[None, :]
    b_y = tl.sum(b_state * load_row(q + pair * K, o_k, K)[:, None], axis=0)
    tl.store(y + pair * V + o_v, b_y.to(y.dtype.element_ty), mask=o_v < V)
    store_tile(last_state + pair * K * V, b_state, o_k, o_v, o_k < K, V)
