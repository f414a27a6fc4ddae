"""The delta rule, the op: n generalized Householder factors per token, after an optional signed gate.

B batch  T time  H heads  n factors  K key dim  V value dim  P = K/2 pairs of channels  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.delta_rule.cases import DELTA_RULE_KERNEL
from eigentrack.ops.delta_rule.chunked import delta_rule as delta_rule_chunked
from eigentrack.ops.delta_rule.reference import delta_rule as delta_rule_reference
from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, gate_pattern

DELTA_RULE = {"reference": delta_rule_reference, "chunked": delta_rule_chunked}


def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"] | None = None,
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """n generalized Householder factors a token, after an optional signed gate, per head (gated DeltaNet) or per key channel
    (KDA). Unit keys and 0 ≤ beta ≤ 2: norm ≤ 1.

    With `turns` the gate is complex: P = K/2 pairs of channels turn by so much of a turn before the first factor, and gate has
    one entry a pair or a head. q, k and v in bfloat16 are multiplied as float32 then.
    """
    check_pairs("delta_rule", "K", k, turns)
    size = check_shapes(
        "delta_rule",
        q=(q, "B T H K"),
        k=(k, "B T H n K"),
        v=(v, "B T H n V"),
        beta=(beta, "B T H n"),
        turns=(turns, "B T H P"),
        gate=(gate, gate_pattern(gate, turns)),
        initial_state=(initial_state, f"{sequence_count(q, cu_seqlens)} H K V"),
    )
    return execute(
        "delta_rule",
        DELTA_RULE,
        backend,
        *(q, k, v, beta, gate, turns),
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, q, cu_seqlens, size["H"], size["K"], size["V"]),
        cu_seqlens=cu_seqlens,
        kernel=DELTA_RULE_KERNEL,
    )
