"""Launches of the sLSTM kernels: outputs are allocated, programs are counted, settings are looked up.

Inputs are contiguous: gates [B, T, H, 4, D] and recurrent [H, 4, D, D] in any float type of up to 32 bits, the state's c, n, h
and m [S, H, D] in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.slstm.backward import backward_kernel
from eigentrack.ops.slstm.forward import forward_kernel
from eigentrack.ops.slstm.plan import Plan

PIECES = 32


@dataclass(frozen=True)
class Inputs:
    gates: Tensor
    recurrent: Tensor
    c: Tensor
    n: Tensor
    h: Tensor
    m: Tensor
    cu_seqlens: Tensor | None


@dataclass(frozen=True)
class Kept:
    """What the backward pass reads again, in float32: all gates (z, i, f, o), R h included, and the state (c, n, h, m) that
    each token met. [B, T, H, 4, D] both; the gates take the place of those given, which can be dropped."""

    gates: Tensor
    states: Tensor


@dataclass(frozen=True)
class Outputs:
    y: Tensor
    last: tuple[Tensor, Tensor, Tensor, Tensor]  # c, n, h, m
    kept: Kept | None

    @staticmethod
    def allocate(inputs: Inputs, save: bool) -> Outputs:
        gates = inputs.gates

        def tokens() -> Tensor:
            return gates.new_empty(gates.shape, dtype=torch.float32)

        return Outputs(
            y=gates.new_empty(*gates.shape[:3], gates.shape[4]),
            last=tuple(torch.empty_like(part) for part in (inputs.c, inputs.n, inputs.h, inputs.m)),  # type: ignore[arg-type]
            kept=Kept(tokens(), tokens()) if save else None,
        )


@dataclass(frozen=True)
class Gradients:
    dgates: Tensor
    drecurrent: Tensor
    dc: Tensor
    dn: Tensor
    dh: Tensor

    @staticmethod
    def allocate(kept: Kept, recurrent: Tensor, cu_seqlens: Tensor | None, dy: Tensor) -> Gradients:
        plan = Plan.of(kept.gates, cu_seqlens)
        dc, dn, dh = (kept.gates.new_empty(plan.sequences, plan.heads, plan.width) for _ in range(3))
        return Gradients(torch.empty_like(kept.gates, dtype=dy.dtype), torch.empty_like(recurrent), dc, dn, dh)


def forward(inputs: Inputs, save: bool) -> Outputs:
    plan, out = Plan.of(inputs.gates, inputs.cu_seqlens), Outputs.allocate(inputs, save)
    kept = (None, None) if out.kept is None else (out.kept.gates, out.kept.states)
    # read along its rows: along columns, threads would wait for one another at the same banks of shared memory
    transposed = inputs.recurrent.mT.contiguous()
    with torch.cuda.device_of(inputs.gates):  # Triton launches on the current GPU; autograd sets it for the backward pass
        forward_kernel[(plan.programs,)](
            *(inputs.gates, transposed, inputs.c, inputs.n, inputs.h, inputs.m),
            *(out.y, *out.last, *kept, inputs.cu_seqlens, plan.sequences, plan.time, plan.heads),
            SAVE=save,
            **plan.settings(),
        )
    return out


def backward(
    kept: Kept,
    recurrent: Tensor,
    cu_seqlens: Tensor | None,
    dy: Tensor,
    dlast: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> Gradients:
    """`dlast` are the gradients of the last c, n and h. All gates get theirs in the dtype of dy, which is that of the gates."""
    plan = Plan.of(kept.gates, cu_seqlens)
    dgates = torch.empty_like(kept.gates)
    dc, dn, dh = (dgates.new_empty(plan.sequences, plan.heads, plan.width) for _ in range(3))
    last = any(part is not None for part in dlast)
    if last:
        dlast = tuple(torch.zeros_like(dc) if part is None else part.contiguous() for part in dlast)  # type: ignore[assignment]
    backward_kernel[(plan.programs,)](
        *(recurrent, kept.gates, kept.states, dy, *dlast),
        *(dgates, dc, dn, dh, cu_seqlens, plan.sequences, plan.time, plan.heads),
        LAST=last,
        **plan.settings(),
    )
    drecurrent = _sum_of_products(dgates, kept.states[..., 2, :])  # (12)
    return Gradients(dgates.to(dy.dtype), drecurrent.to(recurrent.dtype), dc, dn, dh)


def _sum_of_products(dgates: Tensor, h: Tensor) -> Tensor:
    """[H, 4, D, D] from [B, T, H, 4, D] and [B, T, H, D], in PIECES: one long sum would round too often."""
    rest = -(dgates.shape[0] * dgates.shape[1]) % PIECES
    dgates, h = F.pad(dgates.flatten(0, 1), (0, 0) * 3 + (0, rest)), F.pad(h.flatten(0, 1), (0, 0) * 2 + (0, rest))
    with torch.autocast(h.device.type, enabled=False):  # it would round the operands
        pieces = torch.einsum("prhgi,prhj->phgij", dgates.unflatten(0, (PIECES, -1)), h.unflatten(0, (PIECES, -1)))
    return pieces.sum(0)
