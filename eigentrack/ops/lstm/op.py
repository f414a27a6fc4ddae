"""LSTM, the op: the classic non-linear baseline.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.lstm.reference import lstm as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes

LSTM = Op("lstm", {"reference": reference})  # a non-linear recurrence has no parallel form


def lstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor]]:
    """LSTM on the gate pre-activations (z, i, f, o) of the input. The state is (c, h), each [S, H, D]."""
    packing = Packing.of(gates, cu_seqlens)
    c, h = initial_state if initial_state is not None else (None, None)
    shape = f"{sequence_count(gates, packing)} H D"
    size = check_shapes("lstm", gates=(gates, "B T H 4 D"), recurrent=(recurrent, "H 4 D D"), c=(c, shape), h=(h, shape))
    state = tuple(or_zeros(part, gates, packing, size["H"], size["D"]) for part in (c, h))
    return LSTM.run(backend, gates, recurrent=recurrent, initial_state=state, packing=packing)
