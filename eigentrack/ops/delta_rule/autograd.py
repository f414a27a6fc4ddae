"""Delta rule on a GPU: the kernels as a function that autograd differentiates.

Inputs in bfloat16 are read as they are: products take bfloat16 operands, sums and the state are float32. If q, k or v is
float32, or if a gate turns, all products are float32. Equations: docs/derivations/delta_rule_kernels.md.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.delta_rule import launch
from eigentrack.ops.delta_rule.segments import delta_rule_in_segments, segment_length
from eigentrack.ops.shared.autograd import DifferentiableKernels
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import delta_rule_in_frame

KERNELS = DifferentiableKernels("delta_rule", launch)
# Rows of bfloat16 are padded to a multiple of so many entries: rows that cannot be copied by 8 bytes would reach the tensor
# cores through registers (see the plan).
ALIGNED = 4


@delta_rule_in_frame
def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None,
    packing: Packing | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    key_dim, value_dim = q.shape[-1], v.shape[-1]
    key_gap, value_gap = -key_dim % ALIGNED, -value_dim % ALIGNED
    if (key_gap or value_gap) and all(x.dtype == torch.bfloat16 for x in (q, k, v)):  # columns of zeros change nothing
        wide = None if initial_state is None else F.pad(initial_state, (0, value_gap, 0, key_gap))
        q, k, v = F.pad(q, (0, key_gap)), F.pad(k, (0, key_gap)), F.pad(v, (0, value_gap))
        y, last_state = delta_rule(q, k, v, beta, gate, initial_state=wide, packing=packing)
        return y[..., :value_dim], last_state[..., :key_dim, :value_dim]
    if packing is None and (length := segment_length(k, v)):
        return delta_rule_in_segments(_run, length, q, k, v, beta, gate, initial_state)
    return _run(q, k, v, beta, gate, initial_state=initial_state, packing=packing)


def _run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    gate: Tensor | None,
    *,
    initial_state: Tensor | None,
    packing: Packing | None = None,
) -> tuple[Tensor, Tensor]:
    given = (q, k, v, beta, gate, None if initial_state is None else initial_state.float())
    bounds = None if packing is None else packing.bounds
    y, last_state = KERNELS(*(None if x is None else x.contiguous() for x in given), bounds)
    return y, last_state
