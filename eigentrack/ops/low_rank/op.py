"""Diagonal plus low rank, the op: all n factors of a token read the state ahead of the gate.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.low_rank.chunked import low_rank as chunked
from eigentrack.ops.low_rank.reference import low_rank as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes, gate_pattern

LOW_RANK = Op("low_rank", {"reference": reference, "chunked": chunked})


def low_rank(
    q: Float[Tensor, "B T H K"],
    read: Float[Tensor, "B T H n K"],
    write: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Diagonal plus rank n, diag(gate) - Σ write readᵀ: all n factors read the state ahead of the gate (RWKV-7: n = 2)."""
    packing = Packing.of(q, cu_seqlens)
    size = check_shapes(
        "low_rank",
        q=(q, "B T H K"),
        read=(read, "B T H n K"),
        write=(write, "B T H n K"),
        v=(v, "B T H n V"),
        gate=(gate, gate_pattern(gate)),
        initial_state=(initial_state, f"{sequence_count(q, packing)} H K V"),
    )
    state = or_zeros(initial_state, q, packing, size["H"], size["K"], size["V"])
    return LOW_RANK.run(backend, q, read, write, v, gate, initial_state=state, packing=packing)
