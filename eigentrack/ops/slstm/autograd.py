"""sLSTM on a GPU: the kernels as a function that autograd differentiates.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque:

    eigentrack::slstm            y, the last state, and what the backward pass needs
    eigentrack::slstm_backward   all gradients, in fresh memory, the same bits in every run

Inputs in half precision are read as they are; all arithmetic and the state are float32, y has the dtype of the gates, a
gradient that of its input. m carries no gradient. Equations: docs/derivations/slstm.md.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from eigentrack.ops.shared.optional_tensors import no_gaps
from eigentrack.ops.slstm import launch as kernels

_OUTPUTS = 5  # y, c, n, h, m; then what is kept


def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor],
    cu_seqlens: Tensor | None,
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor, Tensor, Tensor]]:
    given = (gates, recurrent, *(part.float() for part in initial_state))
    save = torch.is_grad_enabled() and any(x.requires_grad for x in given[:-1])  # not m
    bounds = None if cu_seqlens is None else cu_seqlens.to(gates.device, torch.int64).contiguous()
    inputs = (*(x.contiguous() for x in given), bounds)
    if torch.compiler.is_compiling():
        y, c, n, h, m, *_ = torch.ops.eigentrack.slstm(*inputs, save)
    elif save:
        y, c, n, h, m = _SLSTM.apply(*inputs)
    else:
        out = kernels.forward(kernels.Inputs(*inputs), save=False)  # type: ignore[arg-type]
        y, (c, n, h, m) = out.y, out.last
    return y, (c, n, h, m)


class _SLSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor | None) -> tuple[Tensor, ...]:
        out = _forward_parts(given, save=True)
        _remember(ctx, (*given, True), out)
        return out[:_OUTPUTS]

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, dy: Tensor | None, dc: Tensor | None, dn: Tensor | None, dh: Tensor | None, _: None
    ) -> tuple[Tensor | None, ...]:
        gates, states, recurrent, cu_seqlens = ctx.saved_tensors
        out = kernels.backward(kernels.Kept(gates, states), recurrent, cu_seqlens, _or_zeros(dy, ctx), (dc, dn, dh))
        return *_all(out), None, None


def _forward_parts(given: tuple[Any, ...], save: bool) -> tuple[Tensor, ...]:
    return _tensors(kernels.forward(kernels.Inputs(*given), save))


def _tensors(out: kernels.Outputs) -> tuple[Tensor, ...]:
    kept = (None, None) if out.kept is None else (out.kept.gates, out.kept.states)
    return out.y, *out.last, *no_gaps(out.y, kept)


def _all(out: kernels.Gradients) -> tuple[Tensor, ...]:
    return out.dgates, out.drecurrent, out.dc, out.dn, out.dh


def _or_zeros(dy: Tensor | None, ctx: Any) -> Tensor:
    if dy is not None:
        return dy.contiguous()
    states = ctx.saved_tensors[1]
    return states.new_zeros(*states.shape[:3], states.shape[4], dtype=ctx.dtype)


@torch.library.custom_op(
    "eigentrack::slstm",
    mutates_args=(),
    schema="(Tensor gates, Tensor recurrent, Tensor c, Tensor n, Tensor h, Tensor m, Tensor? cu_seqlens, bool save)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _forward(*given):  # type: ignore[no-untyped-def]
    return _forward_parts(given[:-1], save=given[-1])


@_forward.register_fake
def _forward_fake(*given):  # type: ignore[no-untyped-def]
    return _tensors(kernels.Outputs.allocate(kernels.Inputs(*given[:-1]), save=given[-1]))


@torch.library.custom_op(
    "eigentrack::slstm_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor? dc, Tensor? dn, Tensor? dh, Tensor gates, Tensor states, Tensor recurrent, Tensor? cu_seqlens)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward(dy, dc, dn, dh, gates, states, recurrent, cu_seqlens):  # type: ignore[no-untyped-def]
    return _all(kernels.backward(kernels.Kept(gates, states), recurrent, cu_seqlens, dy, (dc, dn, dh)))


@_backward.register_fake
def _backward_fake(dy, dc, dn, dh, gates, states, recurrent, cu_seqlens):  # type: ignore[no-untyped-def]
    return _all(kernels.Gradients.allocate(kernels.Kept(gates, states), recurrent, cu_seqlens, dy))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, recurrent, *_, cu_seqlens, _ = inputs
    y, *_, m, gates, states = output
    ctx.dtype = y.dtype
    ctx.mark_non_differentiable(m, *output[_OUTPUTS:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gates, states, recurrent, cu_seqlens)


def _differentiate(
    ctx: Any, dy: Tensor | None, dc: Tensor | None, dn: Tensor | None, dh: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    found = torch.ops.eigentrack.slstm_backward(_or_zeros(dy, ctx), dc, dn, dh, *ctx.saved_tensors)
    return *found, None, None, None


_forward.register_autograd(_differentiate, setup_context=_remember)
