"""Delta rule on a GPU: the kernels as a function that autograd differentiates.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque:

    eigentrack::delta_rule            y, last state, and what the backward pass needs
    eigentrack::delta_rule_backward   all gradients, in fresh memory, the same bits in every run

(An operator costs a tenth of a millisecond of Python a call, as much as the kernels at small sizes; hence both.)

Inputs in bfloat16 are read as they are: products take bfloat16 operands, sums and the state are float32. If one of q, k, v is
float32, all products are, and so they are where a gate turns. Equations: docs/derivations/delta_rule_kernels.md.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from eigentrack.ops.delta_rule import launch as kernels
from eigentrack.ops.delta_rule.segments import delta_rule_in_segments, segment_length
from eigentrack.ops.shared.optional_tensors import no_gaps, with_gaps
from eigentrack.ops.shared.rotating_frame import delta_rule_in_frame

INPUTS = 7  # q, k, v, beta, gate, initial_state, cu_seqlens
ALIGNED = 4  # rows of bfloat16 that cannot be copied by 8 bytes would reach the tensor cores through registers (see the plan)


@delta_rule_in_frame
def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None,
    cu_seqlens: Tensor | None,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    key_dim, value_dim = q.shape[-1], v.shape[-1]
    key_gap, value_gap = -key_dim % ALIGNED, -value_dim % ALIGNED
    if (key_gap or value_gap) and all(x.dtype == torch.bfloat16 for x in (q, k, v)):  # columns of zeros change nothing
        wide = None if initial_state is None else F.pad(initial_state, (0, value_gap, 0, key_gap))
        q, k, v = F.pad(q, (0, key_gap)), F.pad(k, (0, key_gap)), F.pad(v, (0, value_gap))
        y, last_state = delta_rule(q, k, v, beta, gate, initial_state=wide, cu_seqlens=cu_seqlens)
        return y[..., :value_dim], last_state[..., :key_dim, :value_dim]
    if cu_seqlens is None and (length := segment_length(k, v)):
        return delta_rule_in_segments(_run, length, q, k, v, beta, gate, initial_state)
    return _run(q, k, v, beta, gate, initial_state=initial_state, cu_seqlens=cu_seqlens)


def _run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    gate: Tensor | None,
    *,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    given = (q, k, v, beta, gate, None if initial_state is None else initial_state.float())
    save = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    bounds = None if cu_seqlens is None else cu_seqlens.to(q.device, torch.int64)
    inputs = (*(None if x is None else x.contiguous() for x in given), bounds)
    if torch.compiler.is_compiling():
        y, last_state, *_ = torch.ops.eigentrack.delta_rule(*inputs, save)
        return y, last_state
    if save:
        return _DeltaRule.apply(*inputs)
    out = kernels.forward(kernels.Inputs(*inputs), save=False)  # type: ignore[arg-type]
    return out.y, out.last_state


class _DeltaRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        out = kernels.forward(kernels.Inputs(*inputs), save=True)  # type: ignore[arg-type]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *out.saved)
        return out.y, out.last_state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None) -> tuple[Tensor | None, ...]:
        kept = ctx.saved_tensors
        return *_backward_kernels(_or_zeros(dy, *kept[:3]), _contiguous(dlast_state), *kept), None


def _backward_kernels(dy: Tensor, dlast_state: Tensor | None, *kept: Any) -> tuple[Tensor | None, ...]:
    inputs, saved = kernels.Inputs(*kept[:INPUTS]), kernels.Saved(*kept[INPUTS:])
    return _in_dtypes_of(inputs, kernels.backward(inputs, saved, dy, dlast_state))


def _in_dtypes_of(inputs: kernels.Inputs, found: kernels.Gradients) -> tuple[Tensor | None, ...]:
    dq, dk, dv, *others = found
    return dq, dk, dv.to(inputs.v.dtype), *others


def _or_zeros(dy: Tensor | None, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.new_zeros(*q.shape[:3], v.shape[-1]) if dy is None else dy.contiguous()


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


@torch.library.custom_op(
    "eigentrack::delta_rule",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor beta, Tensor? gate, Tensor? initial_state, Tensor? cu_seqlens, bool save)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _forward(q, k, v, beta, gate, initial_state, cu_seqlens, save):  # type: ignore[no-untyped-def]
    out = kernels.forward(kernels.Inputs(q, k, v, beta, gate, initial_state, cu_seqlens), save)
    return out.y, out.last_state, *no_gaps(q, out.saved)


@_forward.register_fake
def _forward_fake(q, k, v, beta, gate, initial_state, cu_seqlens, save):  # type: ignore[no-untyped-def]
    inputs = kernels.Inputs(q, k, v, beta, gate, initial_state, cu_seqlens)
    out = kernels.Outputs.allocate(inputs.plan_of_symbols(save), inputs)
    return out.y, out.last_state, *no_gaps(q, out.saved)


@torch.library.custom_op(
    "eigentrack::delta_rule_backward",
    mutates_args=(),
    schema="(Tensor dy, Tensor? dlast_state, Tensor q, Tensor k, Tensor v, Tensor beta, Tensor? gate, Tensor? initial_state,"
    " Tensor? cu_seqlens, Tensor inverse, Tensor scores, Tensor decays, Tensor errors, Tensor states)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward(dy, dlast_state, *kept):  # type: ignore[no-untyped-def]
    return no_gaps(dy, _backward_kernels(dy, dlast_state, *kept[:INPUTS], *with_gaps(kept[INPUTS:])))


@_backward.register_fake
def _backward_fake(dy, dlast_state, *kept):  # type: ignore[no-untyped-def]
    inputs = kernels.Inputs(*kept[:INPUTS])
    return no_gaps(dy, _in_dtypes_of(inputs, kernels.Gradients.allocate(inputs.plan_of_symbols(save=True), inputs)))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:INPUTS], *output[2:])


def _differentiate(ctx: Any, dy: Tensor | None, dlast_state: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    kept = ctx.saved_tensors
    dy, dlast_state = _or_zeros(dy, *kept[:3]), _contiguous(dlast_state)
    return *with_gaps(torch.ops.eigentrack.delta_rule_backward(dy, dlast_state, *kept)), None, None


_forward.register_autograd(_differentiate, setup_context=_remember)
