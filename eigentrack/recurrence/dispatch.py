"""How an op runs: choose the backend, compute in the state's precision, hand back the caller's dtype.

A backend is  run(*sequences, initial_state, cu_seqlens, **constants) -> (y, last_state):
sequences are [B, T, ...] tensors or None, the state has one row for each sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

BACKENDS = ("auto", "reference", "chunked")

State = Tensor | tuple[Tensor, ...]
Backend = Callable[..., tuple[Tensor, State]]


def execute(
    op: str,
    backends: Mapping[str, Backend],
    backend: str,
    *sequences: Tensor | None,
    initial_state: State,
    cu_seqlens: Tensor | None,
    **constants: Any,
) -> tuple[Tensor, Any]:
    run = choose_backend(op, backends, backend)
    first = next(x for x in sequences if x is not None)
    dtype = state_dtype(*sequences, *(initial_state if isinstance(initial_state, tuple) else [initial_state]))
    # autocast would cast the state's matrix products down again
    with torch.autocast(first.device.type, enabled=False):
        y, last_state = run(
            *(_cast(x, dtype) for x in sequences),
            initial_state=_cast(initial_state, dtype),
            cu_seqlens=cu_seqlens,
            **{name: _cast(value, dtype) for name, value in constants.items()},
        )
    return y.to(first.dtype), last_state


def choose_backend(op: str, backends: Mapping[str, Backend], backend: str) -> Backend:
    if backend == "auto":
        backend = "chunked" if "chunked" in backends else "reference"
    if backend not in backends:
        raise ValueError(f"{op} has no backend {backend!r}; it has auto, {', '.join(backends)}")
    return backends[backend]


def state_dtype(*tensors: Tensor | None) -> torch.dtype:
    """float64 for float64, else float32: |eigenvalue| = 1 does not damp the rounding errors of a half-precision state."""
    return torch.float64 if any(x is not None and x.dtype == torch.float64 for x in tensors) else torch.float32


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype)
    if isinstance(value, tuple):
        return tuple(_cast(item, dtype) for item in value)
    return value
