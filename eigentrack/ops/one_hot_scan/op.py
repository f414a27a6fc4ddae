"""The scan with matrices that have one entry per column, the op: it returns every state.

B batch  T time  H heads  N entries of the state  M = N, or 2N for entries that are pairs  S sequences
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.ops.one_hot_scan.chunked import one_hot_scan as chunked
from eigentrack.ops.one_hot_scan.reference import one_hot_scan as reference
from eigentrack.ops.one_hot_scan.straight_through import through_softmax
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, state_rows

ONE_HOT_SCAN = Op(
    "one_hot_scan",
    {"reference": through_softmax(reference), "chunked": through_softmax(chunked)},
    opaque=frozenset({"reference", "chunked"}),  # the gradient of P differentiates a scan
)


def one_hot_scan(
    a: Float[Tensor, "B T H N"],
    b: Float[Tensor, "B T H M"] | None,
    rows: Int[Tensor, "B T H N"],
    *,
    turns: Float[Tensor, "B T H N"] | None = None,
    softmax: Float[Tensor, "B T H N N"] | None = None,
    initial_state: Float[Tensor, "S H M"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H M"], Float[Tensor, "S H M"]]:
    """Return every state h_t = P_t (a_t R(θ_t) h_{t-1}) + b_t and the last state [S, H, M], M = N, or 2N with `turns`.

    Args:
        a: what the entries of the state are scaled by, [B, T, H, N]; with `turns` the moduli with sign.
        b: the inputs; None for products of matrices alone, which need an `initial_state`.
        rows: P_t, as the row from 0 to N - 1 in which each of its columns has its 1; integers (int64), which have no gradient.
        turns: angles θ in turns, by which entries are turned; each entry is then a pair of numbers. None for real numbers.
        softmax: what the columns of P_t are in the backward pass, [B, T, H, row, column]: it does not change the states, and
            gets the gradient that P_t would have (straight-through). None: P_t is constant.
        initial_state: the state before the first token, one row per sequence, [S, H, M]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(a, cu_seqlens)
    if b is None and initial_state is None:
        raise ValueError("one_hot_scan: without b and without initial_state every state is zero; give one of them")
    if rows.shape != a.shape or rows.dtype != torch.int64:
        raise ValueError(
            f"one_hot_scan: rows is {rows.dtype} of shape {list(rows.shape)}, expected int64 of shape {list(a.shape)}, as a has"
        )
    size = check_shapes(
        "one_hot_scan",
        a=(a, "B T H N"),
        turns=(turns, "B T H N"),
        softmax=(softmax, "B T H N N"),
        b=(b, "B T H N" if turns is None else "B T H M"),
        initial_state=(initial_state, f"{state_rows(packing)} H {'N' if turns is None else 'M'}"),
    )
    given = b if b is not None else initial_state
    if given is not None:
        check_pairs("one_hot_scan", "M", given, turns)
    state = or_zeros(initial_state, a, packing, size["H"], size["N"] * (1 if turns is None else 2))
    return ONE_HOT_SCAN.run(backend, a, b, rows, turns, softmax, initial_state=state, packing=packing)
