"""How an op runs: choose the backend, give each what it takes, hand back the caller's dtype.

A backend is  run(*sequences, initial_state, packing, **constants) -> (y, last_state):
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

from eigentrack.ops.shared.packing import Packing, State

BACKENDS = ("auto", "reference", "chunked", "triton")
STEP = "step"  # a layer's backend for one token: the kernel where there is one, else one turn of the reference
KERNEL_FLOATS = (torch.float32, torch.bfloat16)

_TRITON_IS_INSTALLED = importlib.util.find_spec("triton") is not None

Backend = Callable[..., Any]  # → (y, last_state), or what an op that is no recurrence returns


@dataclass(frozen=True)
class Kernel:
    """An op's Triton kernels: `load` imports them, `refusal` returns why they cannot take a call, or None if they can."""

    load: Callable[[], Callable[..., Any]]
    refusal: Callable[..., str | None]


@dataclass(frozen=True)
class Op:
    """A name and its backends. Every op has a sequential "reference"; the others must agree with it."""

    name: str
    backends: Mapping[str, Backend]
    kernel: Kernel | None = None

    @property
    def default(self) -> str:
        """The backend that runs where no kernel does."""
        return "chunked" if "chunked" in self.backends else "reference"

    def runs_kernel(self, backend: str, first: Tensor, *others: Any, **given: Any) -> bool:
        """Return whether `choose` would take the kernel, without a warning."""
        if self.kernel is None or not _asks_for_kernel(backend) or no_triton(first) is not None:
            return False
        return self.kernel.refusal(first, *others, **given) is None

    def choose(self, backend: str, first: Tensor, *others: Any, callers: int = 1, **given: Any) -> str:
        """Return the name of the backend that runs: "triton", or one of the table. `first` says where the inputs lie.

        Where a kernel was asked for, or could be expected, and cannot run, a warning says once why, in the line that called
        the op: so many `callers` above this function.
        """
        if self.kernel is not None and _asks_for_kernel(backend):
            refusal = no_triton(first) or self.kernel.refusal(first, *others, **given)
            if refusal is None:
                return "triton"
            instead = "reference" if backend == STEP else self.default
            if (backend == "triton" or _expects_a_kernel(first)) and not torch.compiler.is_compiling():  # a graph cannot warn
                _warn_once(f"{self.name}: backend 'triton' {refusal}; {instead!r} runs instead", callers + 3)
            return instead
        if backend in ("auto", STEP):
            return self.default if backend == "auto" else "reference"
        if backend not in self.backends:
            known = ", ".join(["auto", *self.backends, *(["triton"] if self.kernel is not None else [])])
            raise ValueError(f"{self.name} has no backend {backend!r}; it has {known}")
        return backend

    def function(self, chosen: str) -> Backend:
        """Return the backend of a name that `choose` returned."""
        return self.kernel.load() if chosen == "triton" and self.kernel is not None else self.backends[chosen]

    def run(
        self,
        backend: str,
        *sequences: Tensor | None,
        initial_state: State | None,
        zero_state: Callable[[], State] | None = None,
        packing: Packing | None,
        **constants: Any,
    ) -> tuple[Tensor, Any]:
        """Run the recurrence. `zero_state` makes the state that None stands for; an op that never gives None needs none."""
        first, *others = sequences
        assert first is not None
        chosen = self.choose(backend, first, *others, callers=2, initial_state=initial_state, **constants)
        if chosen == "triton":
            return self.function("triton")(*sequences, initial_state=initial_state, packing=packing, **constants)
        state = zero_state() if initial_state is None and zero_state is not None else initial_state
        dtype = state_dtype(*sequences, *(state if isinstance(state, tuple) else [state]))
        # autocast would cast the state's matrix products down again
        with torch.autocast(first.device.type, enabled=False):
            y, last_state = self.backends[chosen](
                *(_cast(x, dtype) for x in sequences),
                initial_state=_cast(state, dtype),
                packing=packing,
                **{name: _cast(value, dtype) for name, value in constants.items()},
            )
        return y.to(first.dtype), last_state


def state_dtype(*tensors: Tensor | None) -> torch.dtype:
    """float64 for float64, else float32: |eigenvalue| = 1 does not damp the rounding errors of a half-precision state."""
    return torch.float64 if any(x is not None and x.dtype == torch.float64 for x in tensors) else torch.float32


def no_triton(x: Tensor) -> str | None:
    """Why no Triton kernel can run on x; None if one can. Nobody else asks whether Triton is there."""
    if not _TRITON_IS_INSTALLED:
        return "needs the package triton (pip install triton)"
    if x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return f"needs a GPU, and the input is on the {x.device.type}"


def refused_tensor(given: Mapping[str, Tensor | None], dtypes: tuple[torch.dtype, ...] = KERNEL_FLOATS) -> str | None:
    """Why a kernel cannot take these tensors: another dtype, or not all on the device of the first one."""
    first_name, first = next(iter(given.items()))
    assert first is not None
    for name, x in given.items():
        if x is not None and x.dtype not in dtypes:
            *others, last = map(str, dtypes)
            return f"takes {', '.join(others)} and {last}, and {name} is {x.dtype}".replace("torch.", "")
        if x is not None and x.device != first.device:
            return f"takes tensors on one device, and {name} is on {x.device}, {first_name} on {first.device}"
    return None


def _asks_for_kernel(backend: str) -> bool:
    return backend in ("triton", "auto", STEP)


def _expects_a_kernel(x: Tensor) -> bool:
    """Whether to warn when the kernel cannot run: on a GPU, unless float64 was chosen over speed."""
    return no_triton(x) is None and x.dtype != torch.float64


@functools.cache
def _warn_once(message: str, level: int) -> None:
    warnings.warn(message, stacklevel=level)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype)
    if isinstance(value, tuple):
        return tuple(_cast(item, dtype) for item in value)
    return value
