"""Gated linear attention, the op: a diagonal gate per head or per key channel.

B batch  T time  H heads  K key dim  V value dim  P = K/2 pairs of channels  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.gated_linear.chunked import gated_linear as chunked
from eigentrack.ops.gated_linear.reference import gated_linear as reference
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, gate_pattern, state_rows


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "a": a, "turns": turns, "initial_state": initial_state}
    return refused_tensor(given)


def _load() -> Backend:
    from eigentrack.ops.gated_linear.autograd import gated_linear

    return gated_linear


GATED_LINEAR = Op("gated_linear", {"reference": reference, "chunked": chunked}, Kernel(_load, refusal))


def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"],
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Run gated linear attention, S_t = a_t R(θ_t) S_{t-1} + k_t v_tᵀ, y_t = S_tᵀ q_t; return y and the last S [S, H, K, V].

    Args:
        q: the queries.
        k: the keys.
        v: the values.
        a: the gates in [-1, 1], one per head (Mamba-2, RetNet), per key channel (GLA) or, with `turns`, per pair of channels;
            0 resets the state, a negative gate flips its sign.
        turns: angles θ in turns, one for each of the P = K/2 pairs of channels, which make the gate complex; None for a
            real gate.
        initial_state: the state before the first token, one row per sequence, [S, H, K, V]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(q, cu_seqlens)
    check_pairs("gated_linear", "K", k, turns)
    size = check_shapes(
        "gated_linear",
        q=(q, "B T H K"),
        k=(k, "B T H K"),
        v=(v, "B T H V"),
        turns=(turns, "B T H P"),
        a=(a, gate_pattern(a, turns)),
        initial_state=(initial_state, f"{state_rows(packing)} H K V"),
    )
    return GATED_LINEAR.run(
        backend,
        *(q, k, v, a, turns),
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, q, packing, size["H"], size["K"], size["V"]),
        packing=packing,
    )
