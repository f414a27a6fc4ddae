"""Gated linear attention on a GPU: the kernels as a function that autograd differentiates.

Inputs in bfloat16 are read as they are: products take bfloat16 operands; sums, gates and the state are float32. If q, k or v
is float32, all products are. Equations: docs/derivations/gated_linear.md.

B batch  T time  H heads  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.gated_linear import launch
from eigentrack.ops.shared.autograd import DifferentiableKernels
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import gated_linear_in_frame

KERNELS = DifferentiableKernels("gated_linear", launch)


@gated_linear_in_frame
def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"] | None,
    packing: Packing | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    given = (q, k, v, a, None if initial_state is None else initial_state.float())
    bounds = None if packing is None else packing.bounds
    y, last_state = KERNELS(*(None if x is None else x.contiguous() for x in given), bounds)
    return y, last_state
