"""Which sLSTMs the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.recurrence.dispatch import Backend, Kernel
from eigentrack.recurrence.packing import sequence_lengths

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
    for name, x in given.items():
        if x.dtype not in DTYPES:
            return f"takes float32, bfloat16 and float16, and {name} is {x.dtype}".replace("torch.", "")
        if x.device != gates.device:
            return f"takes tensors on one device, and {name} is on {x.device}, gates on {gates.device}"
    if gates.shape[-1] > LARGEST_HEAD:
        return f"takes heads of up to {LARGEST_HEAD} entries, and D={gates.shape[-1]}"
    if not torch.compiler.is_compiling() and not (cu_seqlens is not None and _capturing(gates)):
        # reads the bounds, so the CPU waits; wrong ones are an error
        sequence_lengths(gates.shape[0], gates.shape[1], cu_seqlens)
    return None


def load() -> Backend:
    from eigentrack.recurrence.triton.slstm import slstm

    return slstm


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


SLSTM_KERNEL = Kernel(load, refusal, automatic=True)
