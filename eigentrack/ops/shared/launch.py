"""A launch that finds its compiled kernel by itself.

Triton types, compares and hashes all arguments of every call, which takes the host longer than a small kernel takes the GPU.
But between two calls of one plan little can change: which tensors are there, their dtypes, whether they start at a multiple of
16 bytes, the GPU. That much is looked at here, and Triton is asked only for what was not seen before. (Hooks before a run and
Triton's settings for debugging count when a kernel is first met; hooks around a launch count always.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from eigentrack.ops.shared.compile_together import at, only_compiles

ALIGNMENT = 16  # bytes: Triton compiles wider copies for pointers that are multiples of it

Compiled = dict[Any, Any]  # what `launch` has seen → the compiled kernel and its constants in order


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
