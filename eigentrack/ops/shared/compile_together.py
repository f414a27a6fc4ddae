# mypy: disable-error-code="import-untyped"
"""The kernels of an op are compiled at its first call all at once, each on a core of its own, and not one by one as they come.

An op that will be differentiated takes two to six kernels, a few seconds each. `compile_together` runs the op's passes on
tensors without memory; there `at` hands Triton the types of the arguments, and no kernel runs.
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

MOST_AT_ONCE = 8

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
