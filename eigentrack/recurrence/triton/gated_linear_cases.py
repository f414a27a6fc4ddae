"""Which gated linear attentions the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.recurrence.dispatch import Backend, Kernel
from eigentrack.recurrence.packing import sequence_lengths


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "a": a, "turns": turns, "initial_state": initial_state}
    for name, x in given.items():
        if x is not None and x.dtype not in (torch.float32, torch.bfloat16):
            return f"takes float32 and bfloat16, and {name} is {x.dtype}".replace("torch.", "")
        if x is not None and x.device != q.device:
            return f"takes tensors on one device, and {name} is on {x.device}, q on {q.device}"
    if not torch.compiler.is_compiling() and not (cu_seqlens is not None and _capturing(q)):
        sequence_lengths(q.shape[0], q.shape[1], cu_seqlens)  # reads the bounds, so the CPU waits; wrong ones are an error
    return None


def load() -> Backend:
    from eigentrack.recurrence.triton.gated_linear import gated_linear

    return gated_linear


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


GATED_LINEAR_KERNEL = Kernel(load, refusal, automatic=True)
