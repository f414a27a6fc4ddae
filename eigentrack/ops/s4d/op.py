"""S4D, the op: eigenvalues that do not depend on the input.

B batch  T time  D channels  N state size  n = N, or N/2 pairs  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.s4d.chunked import s4d as chunked
from eigentrack.ops.s4d.reference import s4d as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_pairs, check_shapes

S4D = Op("s4d", {"reference": reference, "chunked": chunked})


def s4d(
    x: Float[Tensor, "B T D"],
    *,
    a: Float[Tensor, "D n"],
    turns: Float[Tensor, "D n"] | None = None,
    c: Float[Tensor, "D N"],
    initial_state: Float[Tensor, "S D N"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Eigenvalues a in [-1, 1] that do not depend on the input, n = N; with `turns` complex, one for each of n = N/2 pairs."""
    packing = Packing.of(x, cu_seqlens)
    check_pairs("s4d", "N", c, turns)
    size = check_shapes(
        "s4d",
        x=(x, "B T D"),
        c=(c, "D N"),
        a=(a, "D N" if turns is None else "D n"),
        turns=(turns, "D n"),
        initial_state=(initial_state, f"{sequence_count(x, packing)} D N"),
    )
    state = or_zeros(initial_state, x, packing, size["D"], size["N"])
    return S4D.run(backend, x, a=a, turns=turns, c=c, initial_state=state, packing=packing)
