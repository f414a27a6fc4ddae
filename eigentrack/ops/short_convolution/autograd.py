"""The short convolution on a GPU, with silu and rows of length one where asked for: the kernels as a function that autograd
differentiates. Inputs are float32 or bfloat16, the output has the dtype of x, sums are float32.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque.
(An operator costs a tenth of a millisecond of Python a call, as much as the kernels at small sizes; hence both.)

B batch  T time  C channels  W width of the filter  S sequences  n heads whose rows get length one
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from eigentrack.ops.short_convolution import launch as kernels

TENSORS = 6  # of the inputs: x, window, weight, bias, bounds, sequence_of


def short_convolution(
    x: Float[Tensor, "B T C"],
    window: Float[Tensor, "S past C"],
    weight: Float[Tensor, "C W"],
    bias: Float[Tensor, " C"] | None,
    bounds: Int[Tensor, " S+1"] | None,
    sequence_of: Int[Tensor, " T"] | None,
    *,
    silu: bool,
    unit: int,
    scale: float,
) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T n"]]:
    """scale · unit(silu(convolution)), the heads' rows of width `unit` divided by their lengths; `unit` = 0 divides none.

    Then what rounding did to those rows: |row|² before it over |row|² after it, without a gradient. Packed sequences have
    `bounds`, and for each token the number of its sequence.
    """
    inputs = (x, window, weight, bias, bounds, sequence_of, silu, unit, scale)
    if torch.compiler.is_compiling():
        y, rounding = torch.ops.eigentrack.short_convolution(*inputs)
        return y, rounding
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, window, weight, bias)):
        return _ShortConvolution.apply(*inputs)
    return kernels.forward(kernels.Inputs(*inputs))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.options = inputs[TENSORS:]
    ctx.save_for_backward(*inputs[:TENSORS])


def _all(
    found: tuple[Tensor, Tensor, Tensor], of_window: bool, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs."""
    dx, sums, dwindow = found
    width = weight.shape[1]
    dbias = None if bias is None else sums[width].to(bias.dtype)
    return dx, dwindow if of_window else None, sums[:width].mT.to(weight.dtype), dbias, *[None] * 5


class _ShortConvolution(torch.autograd.Function):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return kernels.forward(kernels.Inputs(*inputs))

    setup_context = staticmethod(_remember)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if dy is None:
            return (None,) * (TENSORS + len(ctx.options))
        kept, of_window = ctx.saved_tensors, ctx.needs_input_grad[1]  # once: checkpointing hands them over a single time
        return _all(kernels.backward(kernels.Inputs(*kept, *ctx.options), dy, of_window), of_window, *kept[2:4])


_INPUTS = "Tensor x, Tensor window, Tensor weight, Tensor? bias, Tensor? bounds, Tensor? sequence_of"
_INPUTS += ", bool silu, int unit, float scale"


@torch.library.custom_op("eigentrack::short_convolution", mutates_args=(), schema=f"({_INPUTS}) -> (Tensor, Tensor)")
def _forward(*inputs):  # type: ignore[no-untyped-def]
    return kernels.forward(kernels.Inputs(*inputs))


@_forward.register_fake
def _forward_fake(*inputs):  # type: ignore[no-untyped-def]
    return kernels.allocate_outputs(kernels.Inputs(*inputs))


@torch.library.custom_op(
    "eigentrack::short_convolution_backward",
    mutates_args=(),
    schema=f"(Tensor dy, bool of_window, {_INPUTS}) -> (Tensor, Tensor, Tensor)",
)
def _backward(dy, of_window, *inputs):  # type: ignore[no-untyped-def]
    return kernels.backward(kernels.Inputs(*inputs), dy, of_window)


@_backward.register_fake
def _backward_fake(dy, of_window, *inputs):  # type: ignore[no-untyped-def]
    return kernels.allocate_gradients(kernels.Inputs(*inputs), of_window)


def _differentiate(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return (None,) * (TENSORS + len(ctx.options))
    kept, of_window = ctx.saved_tensors, ctx.needs_input_grad[1]
    found = torch.ops.eigentrack.short_convolution_backward(dy, of_window, *kept, *ctx.options)
    return _all(found, of_window, *kept[2:4])


_forward.register_autograd(_differentiate, setup_context=_remember)
