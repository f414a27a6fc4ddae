"""Which delta rules the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.recurrence.dispatch import Backend, Kernel
from eigentrack.recurrence.packing import sequence_lengths

LARGEST_KEY = 128  # a program holds all of K; the kernels compile for 256, but give wrong values on Hopper
MOST_FACTORS = 32  # a chunk holds whole tokens


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    gate: Tensor | None,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "beta": beta, "gate": gate, "turns": turns, "initial_state": initial_state}
    for name, x in given.items():
        if x is not None and x.dtype not in (torch.float32, torch.bfloat16):
            return f"takes float32 and bfloat16, and {name} is {x.dtype}".replace("torch.", "")
        if x is not None and x.device != q.device:
            return f"takes tensors on one device, and {name} is on {x.device}, q on {q.device}"
    if gate is not None and gate.ndim == 4:
        return f"takes one gate a head, and this gate has an entry for each {'key channel' if turns is None else 'pair'}"
    if k.shape[-1] > LARGEST_KEY:
        return f"takes keys of up to {LARGEST_KEY} entries, and K={k.shape[-1]}"
    if k.shape[-2] > MOST_FACTORS:
        return f"takes up to {MOST_FACTORS} factors a token, and n={k.shape[-2]}"
    if not torch.compiler.is_compiling() and not (cu_seqlens is not None and _capturing(q)):
        sequence_lengths(q.shape[0], q.shape[1], cu_seqlens)  # reads the bounds, so the CPU waits; wrong ones are an error
    return None


def load() -> Backend:
    from eigentrack.recurrence.triton.delta_rule import delta_rule

    return delta_rule


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


DELTA_RULE_KERNEL = Kernel(load, refusal, automatic=True)
