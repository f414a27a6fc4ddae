"""Mamba's selective scan on a GPU: the kernels as a function that autograd differentiates.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque:

    eigentrack::selective_scan            y, last state, and what the backward pass needs
    eigentrack::selective_scan_backward   all gradients, in fresh memory, the same bits in every run

Every input may be float32 or bfloat16 and is read as it is, slices of a wider projection included; all arithmetic and the
state are float32, y has the dtype of x, a gradient that of its input. Equations: docs/derivations/selective_scan.md.

B batch  T time  D channels  N state size  S sequences
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from eigentrack.ops.selective_scan import launch as kernels
from eigentrack.ops.shared.optional_tensors import no_gaps, with_gaps
from eigentrack.ops.shared.rotating_frame import selective_scan_in_frame
from eigentrack.spectrum import EigenRange

_INPUTS = 9  # x, dt, b, c, z, log_decay, skip, initial_state, cu_seqlens
_SCHEMA = (
    "Tensor x, Tensor dt, Tensor b, Tensor c, Tensor? z, Tensor log_decay, Tensor? skip, Tensor? initial_state,"
    " Tensor? cu_seqlens, float low, float high"
)


@selective_scan_in_frame
def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None,
    *,
    log_decay: Float[Tensor, "D N"],
    skip: Float[Tensor, " D"] | None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "S D N"] | None,
    cu_seqlens: Tensor | None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    given = (x, dt, b, c, z, log_decay, skip, None if initial_state is None else initial_state.float())
    save = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in given)
    inputs = (*given, None if cu_seqlens is None else cu_seqlens.to(x.device, torch.int64))
    if torch.compiler.is_compiling():
        y, last_state, *_ = torch.ops.eigentrack.selective_scan(*inputs, eigenvalues.low, eigenvalues.high, save)
        return y, last_state
    if save:
        return _SelectiveScan.apply(eigenvalues, *inputs)
    out = kernels.forward(kernels.Inputs(*inputs), eigenvalues, save=False)
    return out.y, out.last_state


class _SelectiveScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, eigenvalues: EigenRange, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        out = kernels.forward(kernels.Inputs(*inputs), eigenvalues, save=True)  # type: ignore[arg-type]
        ctx.eigenvalues = eigenvalues
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, out.checkpoints)
        return out.y, out.last_state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, checkpoints = ctx.saved_tensors
        dy, dlast_state = _or_zeros(dy, inputs[0]), _contiguous(dlast_state)
        return None, *kernels.backward(kernels.Inputs(*inputs), ctx.eigenvalues, checkpoints, dy, dlast_state), None


def _or_zeros(dy: Tensor | None, x: Tensor) -> Tensor:
    return x.new_zeros(x.shape) if dy is None else dy.contiguous()


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


@torch.library.custom_op(
    "eigentrack::selective_scan", mutates_args=(), schema=f"({_SCHEMA}, bool save) -> (Tensor, Tensor, Tensor)"
)
def _forward(*given):  # type: ignore[no-untyped-def]
    *inputs, low, high, save = given
    out = kernels.forward(kernels.Inputs(*inputs), EigenRange(low, high), save)
    return out.y, out.last_state, *no_gaps(out.y, (out.checkpoints,))


@_forward.register_fake
def _forward_fake(*given):  # type: ignore[no-untyped-def]
    *rest, low, high, save = given
    inputs = kernels.Inputs(*rest)
    out = kernels.Outputs.allocate(inputs.plan_of_symbols(EigenRange(low, high), save), inputs)
    return out.y, out.last_state, *no_gaps(out.y, (out.checkpoints,))


@torch.library.custom_op(
    "eigentrack::selective_scan_backward",
    mutates_args=(),
    schema=f"(Tensor dy, Tensor? dlast_state, Tensor checkpoints, {_SCHEMA})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward(dy, dlast_state, checkpoints, *given):  # type: ignore[no-untyped-def]
    *inputs, low, high = given
    return no_gaps(dy, kernels.backward(kernels.Inputs(*inputs), EigenRange(low, high), checkpoints, dy, dlast_state))


@_backward.register_fake
def _backward_fake(dy, dlast_state, checkpoints, *given):  # type: ignore[no-untyped-def]
    return no_gaps(dy, kernels.Gradients.of_symbols(kernels.Inputs(*given[:_INPUTS])))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)
    ctx.ends = inputs[_INPUTS : _INPUTS + 2]
    ctx.save_for_backward(*inputs[:_INPUTS], *output[2:])


def _differentiate(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    *inputs, checkpoints = ctx.saved_tensors
    dy, dlast_state = _or_zeros(dy, inputs[0]), _contiguous(dlast_state)
    found = torch.ops.eigentrack.selective_scan_backward(dy, dlast_state, checkpoints, *inputs, *ctx.ends)
    return *with_gaps(found), None, None, None, None


_forward.register_autograd(_differentiate, setup_context=_remember)
