"""LSTM, the op: the classic non-linear baseline.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.lstm.reference import lstm as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_shapes, state_rows

LSTM = Op("lstm", {"reference": reference})  # a non-linear recurrence has no parallel form


def lstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor]]:
    """Run an LSTM and return its outputs h_t and the last state (c, h), each part [S, H, D].

    Args:
        gates: what the input adds to the gates before their non-linearities, W x_t, in the order (z, i, f, o).
        recurrent: R, by which each head's previous output enters its four gates.
        initial_state: the state before the first token, one row per sequence, (c, h), each [S, H, D]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(gates, cu_seqlens)
    c, h = initial_state if initial_state is not None else (None, None)
    shape = f"{state_rows(packing)} H D"
    size = check_shapes("lstm", gates=(gates, "B T H 4 D"), recurrent=(recurrent, "H 4 D D"), c=(c, shape), h=(h, shape))
    state = tuple(or_zeros(part, gates, packing, size["H"], size["D"]) for part in (c, h))
    return LSTM.run(backend, gates, recurrent=recurrent, initial_state=state, packing=packing)
