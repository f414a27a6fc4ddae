"""The short convolution on a GPU: the kernels as two operators of torch, so that autograd, torch.compile and CUDA graphs take
them whole. Inputs are float32 or bfloat16, the output has the dtype of x.

B batch  C channels  W width of the filter
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.kernels import short_convolution as kernels


def short_convolution(
    x: Float[Tensor, "B long C"], weight: Float[Tensor, "C W"], bias: Float[Tensor, " C"] | None
) -> Float[Tensor, "B short C"]:
    """y_t = bias + Σ_w weight_w x_{t+w}: y is W-1 rows shorter than x."""
    return torch.ops.eigentrack.short_convolution(x.contiguous(), weight.contiguous(), bias)


@torch.library.custom_op(
    "eigentrack::short_convolution", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor"
)
def _forward(x, weight, bias):  # type: ignore[no-untyped-def]
    return kernels.forward(x, weight, bias)


@_forward.register_fake
def _forward_fake(x, weight, bias):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape[0], x.shape[1] - weight.shape[1] + 1, x.shape[2])


@torch.library.custom_op(
    "eigentrack::short_convolution_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor x, Tensor weight) -> (Tensor, Tensor)",
)
def _backward(dy, x, weight):  # type: ignore[no-untyped-def]
    return kernels.backward(dy, x, weight)


@_backward.register_fake
def _backward_fake(dy, x, weight):  # type: ignore[no-untyped-def]
    channels, width = weight.shape
    return torch.empty_like(x), weight.new_empty(kernels.terms(width), channels, dtype=torch.float32)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _differentiate(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    dx, sums = torch.ops.eigentrack.short_convolution_backward(dy.contiguous(), x, weight)
    width = weight.shape[1]
    return dx, sums[:width].mT.to(weight.dtype), sums[width].to(weight.dtype) if ctx.has_bias else None


_forward.register_autograd(_differentiate, setup_context=_remember)
