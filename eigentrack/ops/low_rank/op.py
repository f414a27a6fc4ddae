"""Diagonal plus low rank, the op: all n factors of a token read the state ahead of the gate.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.low_rank.chunked import low_rank as low_rank_chunked
from eigentrack.ops.low_rank.reference import low_rank as low_rank_reference
from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_shapes, gate_pattern

LOW_RANK = {"reference": low_rank_reference, "chunked": low_rank_chunked}


def low_rank(
    q: Float[Tensor, "B T H K"],
    read: Float[Tensor, "B T H n K"],
    write: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Diagonal plus rank n, diag(gate) - Σ write readᵀ: all n factors read the state ahead of the gate (RWKV-7: n = 2)."""
    size = check_shapes(
        "low_rank",
        q=(q, "B T H K"),
        read=(read, "B T H n K"),
        write=(write, "B T H n K"),
        v=(v, "B T H n V"),
        gate=(gate, gate_pattern(gate)),
        initial_state=(initial_state, f"{sequence_count(q, cu_seqlens)} H K V"),
    )
    state = or_zeros(initial_state, q, cu_seqlens, size["H"], size["K"], size["V"])
    return execute("low_rank", LOW_RANK, backend, q, read, write, v, gate, initial_state=state, cu_seqlens=cu_seqlens)
