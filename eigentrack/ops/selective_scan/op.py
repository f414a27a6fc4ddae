"""Mamba's selective scan, the op.

B batch  T time  D channels  N state size  P = N/2 pairs  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.selective_scan.cases import SELECTIVE_SCAN_KERNEL
from eigentrack.ops.selective_scan.chunked import selective_scan as selective_scan_chunked
from eigentrack.ops.selective_scan.reference import selective_scan as selective_scan_reference
from eigentrack.ops.shared.dispatch import execute
from eigentrack.ops.shared.packing import or_zeros, sequence_count
from eigentrack.ops.shared.shapes import check_pairs, check_shapes
from eigentrack.spectrum import EigenRange

SELECTIVE_SCAN = {"reference": selective_scan_reference, "chunked": selective_scan_chunked}


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
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Mamba's recurrence: step sizes dt ≥ 0, log_decay A ≤ 0, input matrix b, read-out c, skip D, output gate z.

    With `turns` the eigenvalues are complex: P = N/2 pairs turn by so much of a turn, and log_decay has one entry a pair.
    """
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
        initial_state=(initial_state, f"{sequence_count(x, cu_seqlens)} D N"),
    )
    return execute(
        "selective_scan",
        SELECTIVE_SCAN,
        backend,
        *(x, dt, b, c, z, turns),
        log_decay=log_decay,
        skip=skip,
        eigenvalues=eigenvalues,
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, x, cu_seqlens, size["D"], size["N"]),
        cu_seqlens=cu_seqlens,
        kernel=SELECTIVE_SCAN_KERNEL,
    )
