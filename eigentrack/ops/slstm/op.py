"""sLSTM, the op: a non-linear baseline with exponential gates.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes
from eigentrack.ops.slstm.cases import SLSTM_KERNEL
from eigentrack.ops.slstm.reference import slstm as slstm_reference

SLSTM = {"reference": slstm_reference}  # a non-linear recurrence has no parallel form


def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor, Tensor, Tensor]]:
    """sLSTM on the gate pre-activations (z, i, f, o) of the input. The state is (c, n, h, m), each [S, H, D]."""
    c, n, h, m = initial_state if initial_state is not None else (None, None, None, None)
    shape = f"{sequence_count(gates, cu_seqlens)} H D"
    size = check_shapes(
        "slstm",
        gates=(gates, "B T H 4 D"),
        recurrent=(recurrent, "H 4 D D"),
        **{"c": (c, shape), "n": (n, shape), "h": (h, shape), "m": (m, shape)},
    )
    c, n, h = (or_zeros(part, gates, cu_seqlens, size["H"], size["D"]) for part in (c, n, h))
    # an empty memory has no scale yet: m = -inf lets the first input set it
    m = torch.full_like(c, -torch.inf) if m is None else m
    return execute(
        "slstm",
        SLSTM,
        backend,
        gates,
        recurrent=recurrent,
        initial_state=(c, n, h, m),
        cu_seqlens=cu_seqlens,
        kernel=SLSTM_KERNEL,
    )
