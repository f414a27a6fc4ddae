"""What all Triton kernels ask of their inputs. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from eigentrack.ops.shared.packing import sequence_lengths

FLOATS = (torch.float32, torch.bfloat16)


def refused_tensor(first: Tensor, given: Mapping[str, Tensor | None], dtypes: tuple[torch.dtype, ...] = FLOATS) -> str | None:
    """Why the kernels do not take these, if they do not; all must lie where the first one does."""
    for name, x in given.items():
        if x is not None and x.dtype not in dtypes:
            *others, last = map(str, dtypes)
            return f"takes {', '.join(others)} and {last}, and {name} is {x.dtype}".replace("torch.", "")
        if x is not None and x.device != first.device:
            return f"takes tensors on one device, and {name} is on {x.device}, {next(iter(given))} on {first.device}"
    return None


def check_bounds(x: Tensor, cu_seqlens: Tensor | None) -> None:
    """Wrong ones are an error. It reads them, so the CPU waits: not while a graph is made, which would keep the answer."""
    if not torch.compiler.is_compiling() and not (cu_seqlens is not None and _capturing(x)):
        sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)


def _capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
