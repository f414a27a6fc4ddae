"""Launches of the sLSTM kernels, with the tensors that they write.

Inputs are contiguous: gates [B, T, H, 4, D] and recurrent [H, 4, D, D] in any float type of up to 32 bits, the state's c, n, h
and m [S, H, D] in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.slstm.backward import backward_kernel
from eigentrack.ops.slstm.forward import forward_kernel
from eigentrack.ops.slstm.plan import SLSTMPlan

PIECES = 32  # into which a long sum is cut


class Inputs(NamedTuple):
    gates: Tensor
    recurrent: Tensor
    c: Tensor
    n: Tensor
    h: Tensor
    m: Tensor
    cu_seqlens: Tensor | None


class Outputs(NamedTuple):
    y: Tensor
    c: Tensor
    n: Tensor
    h: Tensor
    m: Tensor


class Saved(NamedTuple):
    """The tensors that the backward pass reads again, both [B, T, H, 4, D] in float32; None if there will be none."""

    gates: Tensor | None  # the gates (z, i, f, o) with R h added; they replace the given gates, which can be freed
    states: Tensor | None  # the state (c, n, h, m) that each token met


class Gradients(NamedTuple):
    dgates: Tensor
    drecurrent: Tensor
    dc: Tensor
    dn: Tensor
    dh: Tensor


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    gates = inputs.gates

    def tokens() -> Tensor | None:
        return gates.new_empty(gates.shape, dtype=torch.float32) if save else None

    y = gates.new_empty(*gates.shape[:3], gates.shape[4])
    last = (torch.empty_like(part) for part in (inputs.c, inputs.n, inputs.h, inputs.m))
    return Outputs(y, *last), Saved(tokens(), tokens())


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    assert saved.gates is not None
    plan = SLSTMPlan.of(saved.gates, inputs.cu_seqlens)
    dc, dn, dh = (saved.gates.new_empty(plan.sequences, plan.heads, plan.width) for _ in range(3))
    return Gradients(torch.empty_like(saved.gates), torch.empty_like(inputs.recurrent, dtype=torch.float32), dc, dn, dh)


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    plan, (out, saved) = SLSTMPlan.of(inputs.gates, inputs.cu_seqlens), allocate(inputs, save)
    # transposed, so that it is read along rows: along columns, threads would wait for the same banks of shared memory
    transposed = inputs.recurrent.mT.contiguous()
    with torch.cuda.device_of(inputs.gates):  # Triton launches on the current GPU; autograd sets it for the backward pass
        forward_kernel[(plan.programs,)](
            *(inputs.gates, transposed, inputs.c, inputs.n, inputs.h, inputs.m),
            *(*out, *saved, inputs.cu_seqlens, plan.sequences, plan.time, plan.heads),
            SAVE=save,
            **plan.settings(),
        )
    return out, saved


def backward(inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, ...], wanted: tuple[bool, ...] = ()) -> Gradients:
    """Return all gradients, in float32; of the inputs, only R and the bounds are read."""
    gates, states, recurrent = saved.gates, saved.states, inputs.recurrent
    assert gates is not None
    assert states is not None
    plan = SLSTMPlan.of(gates, inputs.cu_seqlens)
    dy, *dlast = doutputs[:4]  # dlast is dc, dn, dh; m only chooses units and has no gradient
    dy = gates.new_zeros(*gates.shape[:3], plan.width) if dy is None else dy
    dgates = torch.empty_like(gates)
    dc, dn, dh = (dgates.new_empty(plan.sequences, plan.heads, plan.width) for _ in range(3))
    last = any(part is not None for part in dlast)
    if last:
        dlast = [torch.zeros_like(dc) if part is None else part for part in dlast]
    backward_kernel[(plan.programs,)](
        *(recurrent, gates, states, dy, *dlast),
        *(dgates, dc, dn, dh, inputs.cu_seqlens, plan.sequences, plan.time, plan.heads),
        LAST=last,
        **plan.settings(),
    )
    return Gradients(dgates, _sum_of_products(dgates, states[..., 2, :]), dc, dn, dh)  # (12)


def _sum_of_products(dgates: Tensor, h: Tensor) -> Tensor:
    """Return Σ_t dgates_t h_tᵀ [H, 4, D, D], from [B, T, H, 4, D] and [B, T, H, D].

    It is summed in PIECES, since one long sum would round too often.
    """
    rest = -(dgates.shape[0] * dgates.shape[1]) % PIECES
    dgates, h = F.pad(dgates.flatten(0, 1), (0, 0) * 3 + (0, rest)), F.pad(h.flatten(0, 1), (0, 0) * 2 + (0, rest))
    with torch.autocast(h.device.type, enabled=False):  # autocast would round the operands
        pieces = torch.einsum("prhgi,prhj->phgij", dgates.unflatten(0, (PIECES, -1)), h.unflatten(0, (PIECES, -1)))
    return pieces.sum(0)
