"""How an op runs: choose the backend, give each what it takes, hand back the caller's dtype.

A backend is  run(*sequences, initial_state, cu_seqlens, **constants) -> (y, last_state):
sequences are [B, T, ...] tensors or None, the state has one row for each sequence, and all are in the state's precision.

A kernel is a backend on a GPU that takes the caller's dtypes as they are, and None for a state of zeros. It does not take
every case: `refusal` says why, before triton is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BACKENDS = ("auto", "reference", "chunked", "triton")
STEP = "step"  # of a layer, for one token: the kernel where there is one, else a turn of the reference

_TRITON_IS_INSTALLED = importlib.util.find_spec("triton") is not None

State = Tensor | tuple[Tensor, ...]
Backend = Callable[..., tuple[Tensor, State]]


@dataclass(frozen=True)
class Kernel:
    """`load` imports the kernel; `refusal(*sequences, initial_state=, cu_seqlens=, **constants)` is None where it can run.

    "auto" picks it only if `automatic`: once its tests have passed on a GPU.
    """

    load: Callable[[], Backend]
    refusal: Callable[..., str | None]
    automatic: bool

    def is_asked_for(self, backend: str) -> bool:
        return backend == "triton" or (backend in ("auto", STEP) and self.automatic)

    def runs_on(self, backend: str, first: Tensor, *others: Tensor | None, **given: Any) -> bool:
        return self.is_asked_for(backend) and _no_triton(first) is None and self.refusal(first, *others, **given) is None


def execute(
    op: str,
    backends: Mapping[str, Backend],
    backend: str,
    *sequences: Tensor | None,
    initial_state: State | None,
    zero_state: Callable[[], State] | None = None,
    cu_seqlens: Tensor | None,
    kernel: Kernel | None = None,
    **constants: Any,
) -> tuple[Tensor, Any]:
    """`zero_state` makes the state that None stands for; an op that never gives None needs none."""
    first = next(x for x in sequences if x is not None)
    if kernel is not None and kernel.is_asked_for(backend):
        given = {"initial_state": initial_state, "cu_seqlens": cu_seqlens, **constants}
        refusal = _no_triton(first) or kernel.refusal(*sequences, **given)
        if refusal is None:
            return kernel.load()(*sequences, **given)
        instead = "reference" if backend == STEP else default_backend(backends)
        if (backend == "triton" or _expects_a_kernel(first)) and not torch.compiler.is_compiling():  # a graph cannot warn
            _say_once(f"{op}: backend 'triton' {refusal}; {instead!r} runs instead")
        backend = instead
    if backend == STEP:
        backend = "reference"
    run = choose_backend(op, backends, backend, ["triton"] if kernel is not None else [])
    state = zero_state() if initial_state is None and zero_state is not None else initial_state
    dtype = state_dtype(*sequences, *(state if isinstance(state, tuple) else [state]))
    # autocast would cast the state's matrix products down again
    with torch.autocast(first.device.type, enabled=False):
        y, last_state = run(
            *(_cast(x, dtype) for x in sequences),
            initial_state=_cast(state, dtype),
            cu_seqlens=cu_seqlens,
            **{name: _cast(value, dtype) for name, value in constants.items()},
        )
    return y.to(first.dtype), last_state


def choose_backend(op: str, backends: Mapping[str, Backend], backend: str, others: list[str]) -> Backend:
    if backend == "auto":
        backend = default_backend(backends)
    if backend not in backends:
        raise ValueError(f"{op} has no backend {backend!r}; it has {', '.join(['auto', *backends, *others])}")
    return backends[backend]


def default_backend(backends: Mapping[str, Backend]) -> str:
    """What runs where no kernel does."""
    return "chunked" if "chunked" in backends else "reference"


def state_dtype(*tensors: Tensor | None) -> torch.dtype:
    """float64 for float64, else float32: |eigenvalue| = 1 does not damp the rounding errors of a half-precision state."""
    return torch.float64 if any(x is not None and x.dtype == torch.float64 for x in tensors) else torch.float32


def _no_triton(x: Tensor) -> str | None:
    if not _TRITON_IS_INSTALLED:
        return "needs the package triton (pip install triton)"
    if x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return f"needs a GPU, and the input is on the {x.device.type}"


def _expects_a_kernel(x: Tensor) -> bool:
    """Whether a kernel that steps aside is a surprise: on a GPU, unless float64 was chosen over speed."""
    return _no_triton(x) is None and x.dtype != torch.float64


@functools.cache
def _say_once(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype)
    if isinstance(value, tuple):
        return tuple(_cast(item, dtype) for item in value)
    return value
