"""The scan with full matrices, the op: it returns every state.

B batch  T time  H heads  n by n matrices  m columns  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.dense_scan.chunked import dense_scan as chunked
from eigentrack.ops.dense_scan.reference import dense_scan as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_shapes, state_rows

DENSE_SCAN = Op("dense_scan", {"reference": reference, "chunked": chunked})


def dense_scan(
    a: Float[Tensor, "B T H n n"],
    b: Float[Tensor, "B T H n m"] | None = None,
    *,
    initial_state: Float[Tensor, "S H n m"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    limit: float | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H n m"], Float[Tensor, "S H n m"]]:
    """Return every state S_t = A_t S_{t-1} + B_t and the last state [S, H, n, m]; one of b and `initial_state` is needed.

    Args:
        a: the matrices A_t.
        b: the inputs B_t; None for products of matrices alone.
        initial_state: the state before the first token, one row per sequence, [S, H, n, m], such as I; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        limit: the largest entry of a state that is carried on; None for no limit. It keeps long products finite, if only their
            direction matters, and needs b to be None. A state with a larger entry is scaled down, after every token or every
            chunk, as the backend chooses: beyond the limit, backends agree only up to a positive factor.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(a, cu_seqlens)
    if b is None and initial_state is None:
        raise ValueError("dense_scan: without b and without initial_state every state is zero; give one of them")
    if limit is not None and (b is not None or not limit > 0):
        raise ValueError(f"dense_scan: limit={limit} must be positive, and has a meaning only without b: leave one of them out")
    size = check_shapes(
        "dense_scan",
        a=(a, "B T H n n"),
        b=(b, "B T H n m"),
        initial_state=(initial_state, f"{state_rows(packing)} H n m"),
    )
    state = or_zeros(initial_state, a, packing, size["H"], size["n"], size["m"])
    return DENSE_SCAN.run(backend, a, b, initial_state=state, packing=packing, limit=limit)
