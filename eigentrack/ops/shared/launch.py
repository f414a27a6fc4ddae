# mypy: disable-error-code="import-untyped"
"""Launches of Triton kernels: compiled all at once before the first one, found quickly at every later one.

The kernels of an op are compiled at its first call all at once, each on a core of its own, not one by one as they come.

An op that will be differentiated takes two to six kernels, a few seconds each. `compile_together` runs the op's passes on
tensors without memory; there `at` hands Triton the types of the arguments, and no kernel runs.

Triton types, compares and hashes all arguments of every call, which takes the host longer than a small kernel takes the GPU.
But between two calls of one plan little can change: which tensors are there, their dtypes, whether they start at a multiple of
16 bytes, the GPU. `launch` looks at that much, and asks Triton only for what it has not seen before. (Hooks before a run and
Triton's settings for debugging count when a kernel is first met; hooks around a launch count always.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime import driver
from triton.runtime.jit import JITFunction

MOST_AT_ONCE = 8  # kernels that are compiled at the same time
ALIGNMENT = 16  # bytes: Triton compiles wider copies for pointers that are multiples of it

Compiled = dict[Any, Any]  # what `launch` has seen → the compiled kernel and its constants in order

_only_compiles: ContextVar[bool] = ContextVar("only_compiles", default=False)
_seen: set[Hashable] = set()


def compile_together(what: Hashable, passes: Callable[[], object]) -> None:
    """Compiles what `passes` launches on shadows, at the first call for `what`: the op, and what its kernels depend on.

    A kernel that is still missing afterwards is compiled when it is launched. Where Triton interprets its kernels there is
    nothing to compile, and while a CUDA graph is captured nothing may be loaded from another thread.
    """
    on_a_gpu = torch.cuda.is_available()
    if what in _seen or triton.knobs.runtime.interpret or (on_a_gpu and torch.cuda.is_current_stream_capturing()):
        return
    _seen.add(what)
    token = _only_compiles.set(True)
    try:
        # errors are for the launch: it meets them again
        with suppress(Exception), one_parser(), ThreadPoolExecutor(MOST_AT_ONCE) as threads:
            with triton.AsyncCompileMode(threads, ignore_errors=True) as compiling:
                passes()
            if on_a_gpu:
                kernels = (kernel.result(ignore_errors=True) for kernel in compiling.future_kernels.values())
                load([kernel for kernel in kernels if kernel is not None], threads)
    finally:
        _only_compiles.reset(token)


@contextmanager
def one_parser() -> Iterator[None]:
    """Triton's functions are parsed one by one. Python before 3.13 may take two threads that parse for an error, "AST
    constructor recursion depth mismatch"; a kernel would then be late, or be kept under a name that ignores its source."""
    parse, alone = JITFunction.parse, Lock()

    def parse_alone(function: JITFunction[Any]) -> Any:
        with alone:
            return parse(function)

    JITFunction.parse = parse_alone
    try:
        yield
    finally:
        JITFunction.parse = parse


def load(kernels: Sequence[Any], threads: ThreadPoolExecutor) -> None:
    """Onto the GPU. Triton compiles some C code for the launches of each kernel, a second each: here at once, for its cache.

    Then one by one: kernels whose arguments are of the same types share that code, and when it is loaded a second time Python
    hands out one module for all, in which a thread may find what another one loads.
    """
    list(threads.map(lambda kernel: driver.active.launcher_cls(kernel.src, kernel.metadata), kernels))
    for kernel in kernels:
        _ = kernel.run


def only_compiles() -> bool:
    return _only_compiles.get()


def at(kernel: Any, programs: int) -> Callable[..., Any]:
    """Launches so many programs of the kernel, or only compiles it."""
    return partial(kernel.warmup, grid=(programs,)) if only_compiles() else kernel[(programs,)]


def shadow(x: Tensor | None) -> Tensor | None:
    """Of the same sizes, strides and dtype, without memory."""
    return None if x is None else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def launch(
    compiled: Compiled,
    kernel: Any,
    programs: int,
    arguments: tuple[Tensor | int | None, ...],
    constants: Callable[[], dict[str, Any]],
    variant: bool = False,
) -> None:
    """`compiled` belongs to one plan: `constants` may depend on that, on which of `arguments` are None, and on `variant`. A
    tensor comes first; the kernel takes its constants behind its arguments."""
    key = (variant, *launch_key(kernel, arguments))
    if key in compiled:
        found, values = compiled[key]
        found[programs, 1, 1](*arguments, *values)
        return
    named = constants()
    found = at(kernel, programs)(*arguments, **named)
    if found is not None and not only_compiles():  # the interpreter compiles nothing
        compiled[key] = found, tuple(named[name] for name in kernel.arg_names if name in named)


def launch_key(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    traits = [x if x is None or x.__class__ is int else (x.dtype, x.data_ptr() % ALIGNMENT == 0) for x in arguments]
    return kernel.__name__, arguments[0].get_device(), *traits
