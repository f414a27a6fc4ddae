"""Diagonal plus low rank, the op: all n factors of a token read the state before the gate.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.low_rank.chunked import low_rank as chunked
from eigentrack.ops.low_rank.reference import low_rank as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_shapes, gate_pattern, state_rows

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
    """Run S_t = (diag(gate) - Σ write readᵀ) S_{t-1} + Σ write vᵀ, y_t = S_tᵀ q_t; return y and the last state [S, H, K, V].

    All n factors of a token read the state before its gate (RWKV-7: n = 2).

    Args:
        q: the queries.
        read: the directions in which the factors read the state.
        write: the directions in which the factors write.
        v: the values that the factors write.
        gate: the diagonal, one entry per head or per key channel.
        initial_state: the state before the first token, one row per sequence, [S, H, K, V]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(q, cu_seqlens)
    size = check_shapes(
        "low_rank",
        q=(q, "B T H K"),
        read=(read, "B T H n K"),
        write=(write, "B T H n K"),
        v=(v, "B T H n V"),
        gate=(gate, gate_pattern(gate)),
        initial_state=(initial_state, f"{state_rows(packing)} H K V"),
    )
    state = or_zeros(initial_state, q, packing, size["H"], size["K"], size["V"])
    return LOW_RANK.run(backend, q, read, write, v, gate, initial_state=state, packing=packing)
