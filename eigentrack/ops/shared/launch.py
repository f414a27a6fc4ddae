# mypy: disable-error-code="import-untyped"
"""Launches of Triton kernels: an op's kernels are compiled at once before its first launch, and found quickly at later ones.

An op that will be differentiated takes two to six kernels, and each takes a few seconds to compile. So they are compiled
together at the first call of the op, each on a core of its own, and not one by one as they are launched: `compile_together`
runs the op's passes on tensors without memory, where `at` only tells Triton the types of the arguments and no kernel runs.

Triton types, compares and hashes all arguments of every call, which takes the host longer than a small kernel takes the GPU.
But between two calls of one plan little can change: the integers, which tensors are None, their dtypes, whether they start at a
multiple of 16 bytes, and the GPU. `launch` compares only these, and asks Triton only for a combination that it has not seen
before. (Triton's hooks before a run and its debugging settings take effect only when a kernel is first met; its hooks around a
launch always do.)
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

MOST_AT_ONCE = 8  # kernels compiled at the same time
ALIGNMENT = 16  # bytes: for pointers that are multiples of it, Triton compiles wider copies

Compiled = dict[Any, Any]  # maps what `launch` compares to the compiled kernel and its constants, in order

_only_compiles: ContextVar[bool] = ContextVar("only_compiles", default=False)
_seen: set[Hashable] = set()


def compile_together(what: Hashable, passes: Callable[[], object]) -> None:
    """Compile the kernels that `passes` launches on shadows, at the first call for `what`.

    `what` is the op, with everything that its kernels depend on. A kernel that is still missing afterwards is compiled when it
    is launched. Nothing happens where Triton interprets its kernels, as there is nothing to compile, or while a CUDA graph is
    captured, as nothing may be loaded from another thread then.
    """
    on_a_gpu = torch.cuda.is_available()
    if what in _seen or triton.knobs.runtime.interpret or (on_a_gpu and torch.cuda.is_current_stream_capturing()):
        return
    _seen.add(what)
    token = _only_compiles.set(True)
    try:
        # errors are ignored here: the launch will raise them again
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
    """Make Triton parse its functions one at a time.

    With two threads that parse at once, Python before 3.13 may raise "AST constructor recursion depth mismatch"; a kernel would
    then be compiled late, or be cached under a name that ignores its source.
    """
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
    """Load compiled kernels onto the GPU.

    For the launches of each kernel Triton compiles some C code, which takes a second: this is done for all kernels at once, and
    fills Triton's cache. The kernels are then loaded one by one: those with arguments of the same types share that C code, and
    when it is loaded a second time, Python returns the same module, in which one thread may find what another is loading.
    """
    list(threads.map(lambda kernel: driver.active.launcher_cls(kernel.src, kernel.metadata), kernels))
    for kernel in kernels:
        _ = kernel.run


def only_compiles() -> bool:
    """Return whether kernels are compiled but not run, as inside `compile_together`."""
    return _only_compiles.get()


def at(kernel: Any, programs: int) -> Callable[..., Any]:
    """Return a function that launches `programs` programs of the kernel, or only compiles it inside `compile_together`."""
    return partial(kernel.warmup, grid=(programs,)) if only_compiles() else kernel[(programs,)]


def shadow(x: Tensor | None) -> Tensor | None:
    """Return a tensor of the same sizes, strides and dtype as x, but without memory; None for None."""
    return None if x is None else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def launch(
    compiled: Compiled,
    kernel: Any,
    programs: int,
    arguments: tuple[Tensor | int | None, ...],
    constants: Callable[[], dict[str, Any]],
    variant: bool = False,
) -> None:
    """Launch a kernel, and remember in `compiled` what Triton compiled for these arguments.

    Args:
        compiled: the kernels that one plan has launched so far.
        kernel: the Triton kernel; its compile-time arguments come after all others.
        programs: how many programs to launch.
        arguments: the kernel's other arguments, of which the first is a tensor.
        constants: makes the compile-time arguments, from nothing but the plan, which `arguments` are None, and `variant`.
        variant: which of two sets of constants is meant, where the plan and the arguments do not tell.
    """
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
    """Return what a compiled kernel depends on, beside the plan: the GPU, integers, and dtype and alignment of each tensor."""
    traits = [x if x is None or x.__class__ is int else (x.dtype, x.data_ptr() % ALIGNMENT == 0) for x in arguments]
    return kernel.__name__, arguments[0].get_device(), *traits
