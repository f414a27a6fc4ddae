"""The delta rule, the op: n generalized Householder factors per token, after an optional signed gate.

B batch  T time  H heads  n factors  K key dim  V value dim  P = K/2 pairs of channels  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.delta_rule.chunked import delta_rule as chunked
from eigentrack.ops.delta_rule.reference import delta_rule as reference
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, gate_pattern, state_rows

LARGEST_KEY = 128  # a program holds all of K; for 256 the kernels compile, but compute wrong values on Hopper
MOST_FACTORS = 32  # a chunk holds whole tokens


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    gate: Tensor | None,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "beta": beta, "gate": gate, "turns": turns, "initial_state": initial_state}
    if (reason := refused_tensor(given)) is not None:
        return reason
    if gate is not None and gate.ndim == 4:
        return f"takes one gate per head, and this gate has an entry for each {'key channel' if turns is None else 'pair'}"
    if k.shape[-1] > LARGEST_KEY:
        return f"takes keys of up to {LARGEST_KEY} entries, and K={k.shape[-1]}"
    if k.shape[-2] > MOST_FACTORS:
        return f"takes up to {MOST_FACTORS} factors per token, and n={k.shape[-2]}"
    return None


def _load() -> Backend:
    from eigentrack.ops.delta_rule.autograd import delta_rule

    return delta_rule


DELTA_RULE = Op("delta_rule", {"reference": reference, "chunked": chunked}, Kernel(_load, refusal))


def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"] | None = None,
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Run the delta rule, n generalized Householder factors per token after a gate; return y and the last state [S, H, K, V].

    S ← gate R(θ) S; then for each factor S ← (I - beta k kᵀ) S + beta k vᵀ; y = Sᵀ q. With keys of length one and 0 ≤ beta ≤ 2
    each factor has norm at most 1.

    Args:
        q: the queries.
        k: the keys of the n factors.
        v: the values of the n factors.
        beta: the strength of each factor.
        gate: signed gates before the first factor, one per head (gated DeltaNet), per key channel (KDA) or, with `turns`, per
            pair of channels; None for no gate.
        turns: angles θ in turns, one for each of the P = K/2 pairs of channels, which make the gate complex; None for a
            real gate. With angles, q, k and v in bfloat16 are multiplied as float32.
        initial_state: the state before the first token, one row per sequence, [S, H, K, V]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(q, cu_seqlens)
    check_pairs("delta_rule", "K", k, turns)
    size = check_shapes(
        "delta_rule",
        q=(q, "B T H K"),
        k=(k, "B T H n K"),
        v=(v, "B T H n V"),
        beta=(beta, "B T H n"),
        turns=(turns, "B T H P"),
        gate=(gate, gate_pattern(gate, turns)),
        initial_state=(initial_state, f"{state_rows(packing)} H K V"),
    )
    return DELTA_RULE.run(
        backend,
        *(q, k, v, beta, gate, turns),
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, q, packing, size["H"], size["K"], size["V"]),
        packing=packing,
    )
