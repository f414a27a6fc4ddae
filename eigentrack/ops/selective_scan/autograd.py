"""Mamba's selective scan on a GPU: the kernels as a function that autograd differentiates.

Every input may be float32 or bfloat16 and is read as it is, also if it is a slice of a wider projection; all arithmetic and the
state are float32, y has the dtype of x, and each gradient that of its input. Equations: docs/derivations/selective_scan.md.

B batch  T time  D channels  N state size  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.selective_scan import launch
from eigentrack.ops.shared.autograd import DifferentiableKernels
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import selective_scan_in_frame
from eigentrack.spectrum import EigenRange

KERNELS = DifferentiableKernels("selective_scan", launch)


@selective_scan_in_frame
def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None,
    *,
    log_decay: Float[Tensor, "D N"],
    skip: Float[Tensor, " D"] | None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "S D N"] | None,
    packing: Packing | None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    given = (x, dt, b, c, z, log_decay, skip, None if initial_state is None else initial_state.float())
    bounds = None if packing is None else packing.bounds
    y, last_state = KERNELS(*given, bounds, eigenvalues.low, eigenvalues.high)
    return y, last_state
