"""The dispatch of an op: it chooses the backend, casts the inputs as the backend needs them, and returns the caller's dtype.

A backend is  run(*sequences, initial_state, packing, **constants) -> (y, last_state):
sequences are [B, T, ...] tensors or None, the state has one row per sequence, and all are in the precision of the state.

A kernel is a backend on a GPU that takes the caller's dtypes as they are, and None for a state of zeros. It cannot run in
every case: `refusal` says why not, without importing triton.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.packing import Packing, State
from eigentrack.ops.shared.whole_operator import know, run_as_operator

BACKENDS = ("auto", "reference", "chunked", "triton")
STEP = "step"  # the backend with which a layer decodes one token: the kernel if it can run, else the reference
KERNEL_FLOATS = (torch.float32, torch.bfloat16)

_TRITON_IS_INSTALLED = importlib.util.find_spec("triton") is not None

Backend = Callable[..., Any]  # returns (y, last_state), unless the op is no recurrence


@dataclass(frozen=True)
class Kernel:
    """An op's Triton kernels: `load` imports them, `refusal` returns why they cannot take a call, or None if they can."""

    load: Callable[[], Callable[..., Any]]
    refusal: Callable[..., str | None]


@dataclass(frozen=True)
class Op:
    """An op: its name and its backends. Every op has a "reference", with which the other backends must agree.

    `opaque` names the backends that torch.compile cannot look into.
    """

    name: str
    backends: Mapping[str, Backend]
    kernel: Kernel | None = None
    opaque: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        know(self.name, self.backends)

    @property
    def default(self) -> str:
        """The backend that "auto" stands for where no kernel can run."""
        return "chunked" if "chunked" in self.backends else "reference"

    def runs_kernel(self, backend: str, first: Tensor, *others: Any, **given: Any) -> bool:
        """Return whether `choose` would return "triton" for these arguments, without a warning."""
        if self.kernel is None or not _asks_for_kernel(backend) or no_triton(first) is not None:
            return False
        return self.kernel.refusal(first, *others, **given) is None

    def choose(self, backend: str, first: Tensor, *others: Any, callers: int = 1, **given: Any) -> str:
        """Return the name of the backend that will run: "triton", or a key of `backends`.

        The device of `first` stands for that of all inputs. If the kernel was asked for by name, or could be expected, and
        cannot run, a warning says why, once. It points at the line that called the op; `callers` is the number of the op's own
        functions between that line and this one.
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
        """Return the function of the backend that `choose` named."""
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
        """Run the recurrence and return its outputs, in the dtype of the first sequence, and its last state.

        `zero_state` makes the state that `initial_state=None` stands for; an op that never passes None does not need it.
        """
        first, *others = sequences
        assert first is not None
        chosen = self.choose(backend, first, *others, callers=2, initial_state=initial_state, **constants)
        if packing is None and is_batch_invariant() and backend != STEP and chosen != "reference":
            # a backend may take a batch in other pieces than packed sequences; the reference takes both token by token
            rows = (None if x is None else x.reshape(1, -1, *x.shape[2:]) for x in sequences)
            packed = {"packing": Packing.of_batch(first), "zero_state": zero_state, **constants}
            y, last_state = self.run(chosen, *rows, initial_state=initial_state, **packed)
            return y.view(*first.shape[:2], *y.shape[2:]), last_state
        if chosen == "triton":
            return self.function("triton")(*sequences, initial_state=initial_state, packing=packing, **constants)
        state = zero_state() if initial_state is None and zero_state is not None else initial_state
        dtype = state_dtype(*sequences, *(state if isinstance(state, tuple) else [state]))
        run = self.backends[chosen]
        if torch.compiler.is_compiling() and (chosen in self.opaque or packing is not None or _length_is_a_symbol(first)):
            run = functools.partial(run_as_operator, self.name, chosen)
        with without_autocast(first):  # it would cast the state's matrix products down again
            y, last_state = run(
                *(_cast(x, dtype) for x in sequences),
                initial_state=_cast(state, dtype),
                packing=packing,
                **{name: _cast(value, dtype) for name, value in constants.items()},
            )
        return y.to(first.dtype), last_state


def state_dtype(*tensors: Tensor | None) -> torch.dtype:
    """Return the precision of the state: float64 if one of the tensors is float64, else float32.

    An eigenvalue of modulus 1 would not damp the rounding errors of a state in half precision.
    """
    return torch.float64 if any(x is not None and x.dtype == torch.float64 for x in tensors) else torch.float32


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which autocast leaves products on the device of x alone; the device "meta" has no autocast."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def no_triton(x: Tensor) -> str | None:
    """Return why no Triton kernel can run on x, or None if one can; the only place that asks whether Triton is there."""
    if not _TRITON_IS_INSTALLED:
        return "needs the package triton (pip install triton)"
    if x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return f"needs a GPU, and the input is on the {x.device.type}"


def refused_tensor(given: Mapping[str, Tensor | None], dtypes: tuple[torch.dtype, ...] = KERNEL_FLOATS) -> str | None:
    """Return why a kernel cannot take these tensors: a wrong dtype, or not all on one device; None if it can take them."""
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
    """Return whether to warn when the kernel cannot run: where Triton can run, unless float64 was chosen over speed."""
    return no_triton(x) is None and x.dtype != torch.float64


def _length_is_a_symbol(x: Tensor) -> bool:
    """Return whether a graph is being traced for sequences of any length."""
    from torch.fx.experimental.symbolic_shapes import has_static_value  # while nothing is traced, nobody needs it

    return not has_static_value(x.shape[1])


@functools.cache
def _warn_once(message: str, level: int) -> None:
    warnings.warn(message, stacklevel=level)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value  # an index stays an index
    if isinstance(value, tuple):
        return tuple(_cast(item, dtype) for item in value)
    return value
