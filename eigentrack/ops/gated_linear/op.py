"""Gated linear attention, the op: a diagonal gate per head or per key channel.

B batch  T time  H heads  K key dim  V value dim  P = K/2 pairs of channels  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.gated_linear.cases import GATED_LINEAR_KERNEL
from eigentrack.ops.gated_linear.chunked import gated_linear as gated_linear_chunked
from eigentrack.ops.gated_linear.reference import gated_linear as gated_linear_reference
from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, gate_pattern

GATED_LINEAR = {"reference": gated_linear_reference, "chunked": gated_linear_chunked}


def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"],
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Diagonal gate a in [-1, 1], per head (Mamba-2, RetNet) or per key channel (GLA); a = 0 resets, a < 0 flips.

    With `turns` the gate is complex: P = K/2 pairs of channels turn by so much of a turn, and a has one entry a pair or a head.
    """
    check_pairs("gated_linear", "K", k, turns)
    size = check_shapes(
        "gated_linear",
        q=(q, "B T H K"),
        k=(k, "B T H K"),
        v=(v, "B T H V"),
        turns=(turns, "B T H P"),
        a=(a, gate_pattern(a, turns)),
        initial_state=(initial_state, f"{sequence_count(q, cu_seqlens)} H K V"),
    )
    return execute(
        "gated_linear",
        GATED_LINEAR,
        backend,
        *(q, k, v, a, turns),
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, q, cu_seqlens, size["H"], size["K"], size["V"]),
        cu_seqlens=cu_seqlens,
        kernel=GATED_LINEAR_KERNEL,
    )
