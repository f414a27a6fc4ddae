"""sLSTM on a GPU: the kernels as a function that autograd differentiates.

Inputs in half precision are read as they are; all arithmetic and the state are float32, y has the dtype of the gates, and
each gradient that of its input. m carries no gradient. Equations: docs/derivations/slstm.md.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.autograd import DifferentiableKernels
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.slstm import launch

KERNELS = DifferentiableKernels("slstm", launch, forgotten=("gates", "c", "n", "h", "m"), constant=("m",))


def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor],
    packing: Packing | None,
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor, Tensor, Tensor]]:
    given = (gates, recurrent, *(part.float() for part in initial_state))
    y, c, n, h, m = KERNELS(*(x.contiguous() for x in given), None if packing is None else packing.bounds)
    return y, (c, n, h, m)
