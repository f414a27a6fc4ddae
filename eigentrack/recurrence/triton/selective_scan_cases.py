"""Which selective scans the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.recurrence.dispatch import Backend, Kernel
from eigentrack.recurrence.packing import sequence_lengths
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
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"x": x, "dt": dt, "b": b, "c": c, "z": z, "turns": turns, "log_decay": log_decay, "skip": skip}
    given |= {"initial_state": initial_state}
    for name, tensor in given.items():
        if tensor is not None and tensor.dtype not in (torch.float32, torch.bfloat16):
            return f"takes float32 and bfloat16, and {name} is {tensor.dtype}".replace("torch.", "")
        if tensor is not None and tensor.device != x.device:
            return f"takes tensors on one device, and {name} is on {tensor.device}, x on {x.device}"
    if b.shape[-1] > LARGEST_STATE:
        return f"takes states of up to {LARGEST_STATE} entries a channel, and N={b.shape[-1]}"
    if not torch.compiler.is_compiling() and not (cu_seqlens is not None and _capturing(x)):
        sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)  # reads the bounds, so the CPU waits; wrong ones are an error
    return None


def load() -> Backend:
    from eigentrack.recurrence.triton.selective_scan import selective_scan

    return selective_scan


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


SELECTIVE_SCAN_KERNEL = Kernel(load, refusal, automatic=True)
