"""Mamba's selective scan, the op.

B batch  T time  D channels  N state size  P = N/2 pairs  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.selective_scan.chunked import selective_scan as chunked
from eigentrack.ops.selective_scan.reference import selective_scan as reference
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing, or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_pairs, check_shapes
from eigentrack.spectrum import EigenRange

LARGEST_STATE = 64  # a program holds all of N


def refusal(
    x: Tensor,
    dt: Tensor,
    b: Tensor,
    c: Tensor,
    z: Tensor | None,
    turns: Tensor | None = None,
    *,
    log_decay: Tensor,
    skip: Tensor | None,
    eigenvalues: EigenRange,
    initial_state: Tensor | None,
) -> str | None:
    given = {"x": x, "dt": dt, "b": b, "c": c, "z": z, "turns": turns, "log_decay": log_decay, "skip": skip}
    given |= {"initial_state": initial_state}
    if (reason := refused_tensor(given)) is not None:
        return reason
    if b.shape[-1] > LARGEST_STATE:
        return f"takes states of up to {LARGEST_STATE} entries a channel, and N={b.shape[-1]}"
    return None


def _load() -> Backend:
    from eigentrack.ops.selective_scan.autograd import selective_scan

    return selective_scan


SELECTIVE_SCAN = Op("selective_scan", {"reference": reference, "chunked": chunked}, Kernel(_load, refusal))


def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None = None,
    turns: Float[Tensor, "B T P"] | None = None,
    *,
    log_decay: Float[Tensor, "D N"] | Float[Tensor, "D P"],
    skip: Float[Tensor, " D"] | None = None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "S D N"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Mamba's recurrence: step sizes dt ≥ 0, log_decay A ≤ 0, input matrix b, read-out c, skip D, output gate z.

    With `turns` the eigenvalues are complex: P = N/2 pairs turn by so much of a turn, and log_decay has one entry a pair.
    """
    packing = Packing.of(x, cu_seqlens)
    check_pairs("selective_scan", "N", b, turns)
    size = check_shapes(
        "selective_scan",
        x=(x, "B T D"),
        dt=(dt, "B T D"),
        b=(b, "B T N"),
        c=(c, "B T N"),
        z=(z, "B T D"),
        turns=(turns, "B T P"),
        log_decay=(log_decay, "D N" if turns is None else "D P"),
        skip=(skip, "D"),
        initial_state=(initial_state, f"{sequence_count(x, packing)} D N"),
    )
    return SELECTIVE_SCAN.run(
        backend,
        *(x, dt, b, c, z, turns),
        log_decay=log_decay,
        skip=skip,
        eigenvalues=eigenvalues,
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, x, packing, size["D"], size["N"]),
        packing=packing,
    )
