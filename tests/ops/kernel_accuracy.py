"""How accurate a kernel must be: its error against float64 is at most twice that of plain torch in the same dtypes.

Plain torch is the chunked form on the same inputs. Where these are bfloat16, its products take bfloat16 operands and add in
float32, as those of the kernels do: products of float32 would be another precision, at many times the cost.

B batch  T time  H heads  S sequences
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.closeness import KERNEL_FLOOR, TOLERANCE, relative_error
from tests.ops.poisoned_memory import poisoned_memory

TIMES = 2.0
Op = Callable[..., tuple[Tensor, Tensor]]


def cast(inputs: Sequence[Tensor | None], dtype: torch.dtype, wide: Collection[int] = ()) -> list[Tensor | None]:
    """The inputs in this dtype, those at the places `wide` in float32 where this has fewer bits."""
    dtypes = (torch.promote_types(dtype, torch.float32) if place in wide else dtype for place in range(len(inputs)))
    return [None if x is None else x.to(chosen) for x, chosen in zip(inputs, dtypes, strict=True)]


def assert_as_accurate_as_plain_torch(
    found: Mapping[str, Tensor],
    plain: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    dtype: torch.dtype,
) -> None:
    for name, exact in expected.items():
        error, allowed = relative_error(found[name], exact), relative_error(plain[name], exact)
        assert error <= max(KERNEL_FLOOR[dtype], TIMES * allowed), f"{name}: {error:.1e}, plain torch {allowed:.1e}"


def assert_a_step_is_accurate(op: Op, inputs: Sequence[Tensor | None], dtype: torch.dtype) -> None:
    """y and the last state of one token without gradients, in poisoned memory, and the bits of two runs.

    `op` takes the backend first. All arithmetic is float32, and so is the state, which comes last.
    """
    inputs = cast(inputs, dtype, wide=[len(inputs) - 1])
    expected, wanted = op("reference", *(None if x is None else x.double() for x in inputs))
    plain, _ = op("reference", *inputs)
    with poisoned_memory():
        (y, last), again = op("triton", *inputs), op("triton", *inputs)
    assert (y.dtype, last.dtype) == (dtype, torch.float32)
    assert_as_accurate_as_plain_torch({"y": y}, {"y": plain}, {"y": expected}, dtype)
    assert relative_error(last, wanted) <= TOLERANCE[torch.float32]
    assert all(torch.equal(one, other) for one, other in zip((y, last), again, strict=True)), "two runs differ"


@contextmanager
def plain_torch(dtype: torch.dtype) -> Iterator[None]:
    """Products as plain torch makes them of inputs of this type."""
    rounding = _BFloat16Products() if dtype == torch.bfloat16 else nullcontext()
    with torch.autograd.set_multithreading_enabled(False), rounding:  # a mode holds for the thread that enters it
        yield


class _BFloat16Products(TorchDispatchMode):
    """Matrix products round their operands; a triangular system is such a product too, with the inverse."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default):
            return func(*map(_rounded, args), **kwargs)
        if func is torch.ops.aten.linalg_solve_triangular.default:
            matrix, right = args
            identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
            inverse, right = _rounded(func(matrix, identity.expand_as(matrix), **kwargs)), _rounded(right)
            return inverse @ right if kwargs.get("left", True) else right @ inverse
        return func(*args, **kwargs)


def _rounded(x: Tensor) -> Tensor:
    return x.bfloat16().to(x.dtype)


def outputs_and_gradients(
    run: Op, inputs: Sequence[Tensor | None], weights: Sequence[Tensor | None], pieces: int = 1
) -> list[Tensor]:
    """y, the last state, and the gradients of <y, weights[0]> + <last state, weights[1]> for all inputs that there are.

    The inputs are sequences [B, T, H, ...] and last a state [S, H, ...]; in pieces, a few heads at a time save memory.
    """
    axes = [*[2] * (len(inputs) - 1), 1, 2, 1]
    cut = [
        [None] * pieces if x is None else x.tensor_split(pieces, axis)
        for x, axis in zip([*inputs, *weights], axes, strict=True)
    ]
    found = [_outputs_and_gradients(run, part[:-2], part[-2:]) for part in zip(*cut, strict=True)]
    out_axes = [2, 1, *(axis for x, axis in zip(inputs, axes, strict=False) if x is not None)]
    return [torch.cat(parts, axis) for parts, axis in zip(zip(*found, strict=True), out_axes, strict=True)]


def _outputs_and_gradients(run: Op, inputs: Sequence[Tensor | None], weights: Sequence[Tensor | None]) -> list[Tensor]:
    leaves = [None if x is None else x.detach().clone().requires_grad_() for x in inputs]
    outputs = run(*leaves)
    terms = [(out.double() * weight).sum() for out, weight in zip(outputs, weights, strict=True) if weight is not None]
    gradients = torch.autograd.grad(sum(terms), [x for x in leaves if x is not None])
    return [*(out.detach() for out in outputs), *gradients]
