"""Full matrices, the op: it returns every state.

B batch  T time  H heads  n by n matrices  m columns  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.dense_scan.chunked import dense_scan as chunked
from eigentrack.ops.dense_scan.reference import dense_scan as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes

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
    """Full matrices: returns every state S_t = A_t S_{t-1} + B_t. Needs b or an initial state (the identity, say).

    `limit`, for products alone (without b), whose scale does not matter once it is large: a state with a larger entry is
    scaled down to it before it is carried on, so that long products stay finite. After every token or after every chunk:
    that is the backend's choice, and beyond the limit states are the same up to a positive factor only.
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
        initial_state=(initial_state, f"{sequence_count(a, packing)} H n m"),
    )
    state = or_zeros(initial_state, a, packing, size["H"], size["n"], size["m"])
    return DENSE_SCAN.run(backend, a, b, initial_state=state, packing=packing, limit=limit)
