"""S4D, the op: eigenvalues that do not depend on the input.

B batch  T time  D channels  N state size  n = N, or N/2 pairs  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.s4d.chunked import s4d as chunked
from eigentrack.ops.s4d.reference import s4d as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, state_rows

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
    """Run S4D, h_t = a R(θ) h_{t-1} + x_t e, y_t = c · h_t, and return the outputs y and the last state [S, D, N].

    Args:
        x: the inputs, one per channel.
        a: the eigenvalues in [-1, 1], one per entry of the state (n = N); with `turns` their moduli with sign, one per pair.
        turns: angles θ in turns, one for each of the n = N/2 pairs of entries; None for real eigenvalues.
        c: the read-out of the state.
        initial_state: the state before the first token, one row per sequence, [S, D, N]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(x, cu_seqlens)
    check_pairs("s4d", "N", c, turns)
    size = check_shapes(
        "s4d",
        x=(x, "B T D"),
        c=(c, "D N"),
        a=(a, "D N" if turns is None else "D n"),
        turns=(turns, "D n"),
        initial_state=(initial_state, f"{state_rows(packing)} D N"),
    )
    state = or_zeros(initial_state, x, packing, size["D"], size["N"])
    return S4D.run(backend, x, a=a, turns=turns, c=c, initial_state=state, packing=packing)
