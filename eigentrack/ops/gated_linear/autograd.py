"""Gated linear attention on a GPU: the kernels as a function that autograd differentiates.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque:

    eigentrack::gated_linear            y, last state, and what the backward pass needs
    eigentrack::gated_linear_backward   all gradients, in fresh memory, the same bits in every run

(An operator costs a tenth of a millisecond of Python a call, as much as the kernels at small sizes; hence both.)

Inputs in bfloat16 are read as they are: products take bfloat16 operands, sums, gates and the state are float32. If one of q, k,
v is float32, all products are. Equations: docs/derivations/gated_linear.md.

B batch  T time  H heads  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from eigentrack.ops.gated_linear import launch as kernels
from eigentrack.ops.shared.optional_tensors import no_gaps, with_gaps
from eigentrack.ops.shared.rotating_frame import gated_linear_in_frame

INPUTS = 6  # q, k, v, a, initial_state, cu_seqlens


@gated_linear_in_frame
def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"] | None,
    cu_seqlens: Tensor | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    given = (q, k, v, a, None if initial_state is None else initial_state.float())
    bounds = None if cu_seqlens is None else cu_seqlens.to(q.device, torch.int64)
    inputs = (*(None if x is None else x.contiguous() for x in given), bounds)
    differentiated = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    if torch.compiler.is_compiling():
        y, last_state, *_ = torch.ops.eigentrack.gated_linear(*inputs, differentiated)
        return y, last_state
    if differentiated:
        return _GatedLinear.apply(*inputs)
    out = kernels.forward(kernels.Inputs(*inputs), differentiated=False)  # type: ignore[arg-type]
    return out.y, out.last_state


class _GatedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        out = kernels.forward(kernels.Inputs(*inputs), differentiated=True)  # type: ignore[arg-type]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *out.kept)
        return out.y, out.last_state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None) -> tuple[Tensor | None, ...]:
        kept = ctx.saved_tensors  # once: activation checkpointing hands them over a single time
        inputs = kernels.Inputs(*kept[:INPUTS])
        dy, dlast_state = _or_zeros(dy, inputs.q, inputs.v), _contiguous(dlast_state)
        return *kernels.backward(inputs, kernels.Kept(*kept[INPUTS:]), dy, dlast_state), None


def _or_zeros(dy: Tensor | None, q: Tensor, v: Tensor) -> Tensor:
    return q.new_zeros(v.shape) if dy is None else dy.contiguous()


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


@torch.library.custom_op(
    "eigentrack::gated_linear",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor a, Tensor? initial_state, Tensor? cu_seqlens, bool differentiated)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _forward(*given):  # type: ignore[no-untyped-def]
    *inputs, differentiated = given
    out = kernels.forward(kernels.Inputs(*inputs), differentiated)
    return out.y, out.last_state, *no_gaps(out.y, out.kept)


@_forward.register_fake
def _forward_fake(*given):  # type: ignore[no-untyped-def]
    *rest, differentiated = given
    inputs = kernels.Inputs(*rest)
    out = kernels.Outputs.allocate(inputs.plan_of_symbols(differentiated), inputs)
    return out.y, out.last_state, *no_gaps(out.y, out.kept)


@torch.library.custom_op(
    "eigentrack::gated_linear_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor? dlast_state, Tensor q, Tensor k, Tensor v, Tensor a, Tensor? initial_state, Tensor? cu_seqlens,"
    " Tensor scores, Tensor queries, Tensor keys, Tensor decays, Tensor states) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward(dy, dlast_state, *inputs_and_kept):  # type: ignore[no-untyped-def]
    inputs, kept = kernels.Inputs(*inputs_and_kept[:INPUTS]), kernels.Kept(*with_gaps(inputs_and_kept[INPUTS:]))
    return no_gaps(dy, kernels.backward(inputs, kept, dy, dlast_state))


@_backward.register_fake
def _backward_fake(dy, dlast_state, *inputs_and_kept):  # type: ignore[no-untyped-def]
    return no_gaps(dy, kernels.Gradients.allocate(kernels.Inputs(*inputs_and_kept[:INPUTS])))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:INPUTS], *output[2:])


def _differentiate(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    kept = ctx.saved_tensors
    q, _k, v, *_rest = kept
    dy, dlast_state = _or_zeros(dy, q, v), _contiguous(dlast_state)
    return *with_gaps(torch.ops.eigentrack.gated_linear_backward(dy, dlast_state, *kept)), None, None


_forward.register_autograd(_differentiate, setup_context=_remember)
