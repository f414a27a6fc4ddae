"""mLSTM, the op: a matrix memory with normaliser and stabiliser.

B batch  T time  H heads  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.mlstm.chunked import mlstm as chunked
from eigentrack.ops.mlstm.reference import mlstm as reference
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_shapes, state_rows

MLSTM = Op("mlstm", {"reference": reference, "chunked": chunked})


def mlstm(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    i: Float[Tensor, "B T H"],
    f: Float[Tensor, "B T H"],
    *,
    initial_state: tuple[Tensor, Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], tuple[Tensor, Tensor, Tensor]]:
    """Run an mLSTM, a matrix memory with a normaliser, and return its outputs and the last state.

    The state is (memory [S, H, K, V], normaliser [S, H, K], m [S, H]); the first two are in units of e^m.

    Args:
        q: the queries.
        k: the keys.
        v: the values.
        i: the logarithm of the input gate.
        f: the forget gate, in [-1, 1].
        initial_state: the state before the first token, one row per sequence, (memory, normaliser, m); None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(q, cu_seqlens)
    memory, normaliser, m = initial_state if initial_state is not None else (None, None, None)
    rows = state_rows(packing)
    size = check_shapes(
        "mlstm",
        q=(q, "B T H K"),
        k=(k, "B T H K"),
        v=(v, "B T H V"),
        i=(i, "B T H"),
        f=(f, "B T H"),
        memory=(memory, f"{rows} H K V"),
        normaliser=(normaliser, f"{rows} H K"),
        m=(m, f"{rows} H"),
    )
    state = (
        or_zeros(memory, q, packing, size["H"], size["K"], size["V"]),
        or_zeros(normaliser, q, packing, size["H"], size["K"]),
        or_zeros(m, q, packing, size["H"]),
    )
    return MLSTM.run(backend, q, k, v, i, f, initial_state=state, packing=packing)
