"""Which sLSTMs the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel
from eigentrack.ops.shared.kernel_inputs import check_bounds, refused_tensor

LARGEST_HEAD = 64  # the four blocks of R must fit into the shared memory of a multiprocessor
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def refusal(
    gates: Tensor,
    *,
    recurrent: Tensor,
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor],
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"gates": gates, "recurrent": recurrent, **dict(zip("cnhm", initial_state, strict=True))}
    if (reason := refused_tensor(gates, given, DTYPES)) is not None:
        return reason
    if gates.shape[-1] > LARGEST_HEAD:
        return f"takes heads of up to {LARGEST_HEAD} entries, and D={gates.shape[-1]}"
    check_bounds(gates, cu_seqlens)
    return None


def load() -> Backend:
    from eigentrack.ops.slstm.autograd import slstm

    return slstm


SLSTM_KERNEL = Kernel(load, refusal, automatic=True)
