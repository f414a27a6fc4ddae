"""LSTM, the op: the classic non-linear baseline.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.lstm.reference import lstm as lstm_reference
from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes

LSTM = {"reference": lstm_reference}  # a non-linear recurrence has no parallel form


def lstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor]]:
    """LSTM on the gate pre-activations (z, i, f, o) of the input. The state is (c, h), each [S, H, D]."""
    c, h = initial_state if initial_state is not None else (None, None)
    shape = f"{sequence_count(gates, cu_seqlens)} H D"
    size = check_shapes("lstm", gates=(gates, "B T H 4 D"), recurrent=(recurrent, "H 4 D D"), c=(c, shape), h=(h, shape))
    state = tuple(or_zeros(part, gates, cu_seqlens, size["H"], size["D"]) for part in (c, h))
    return execute("lstm", LSTM, backend, gates, recurrent=recurrent, initial_state=state, cu_seqlens=cu_seqlens)
