"""Mamba's selective scan in chunks:  h_t = a_t h_{t-1} + Δ_t B_t x_t,   a_t = range(exp(Δ_t A)),   y_t = Σ_n C_t h_t.

No tensor [B, T, D, N] is ever held, but only one chunk of gates and states at a time; the backward pass computes it again from
the state that entered it. Peak memory is O(B D N (L + T/L)) beside the inputs and outputs.

B batch  T time  L tokens per chunk  D channels  N state size
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import selective_scan_in_frame
from eigentrack.spectrum import EigenRange


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
    initial_state: Float[Tensor, "S D N"],
    packing: Packing | None,
    chunk_size: int = 32,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    layout = chunk_layout(x, packing, chunk_size, floats_per_chunk=chunk_size * log_decay.numel())
    carry = Carry(layout, initial_state)
    parts = [layout.split(tensor) for tensor in (dt * x, dt, b, c)]
    outputs = [
        _run_group(carry, steps, log_decay, eigenvalues, *pieces)
        for steps, *pieces in zip(layout.groups, *parts, layout.padding(), strict=True)
    ]
    y = layout.join(outputs)
    if skip is not None:
        y = y + skip * x
    if z is not None:
        y = y * F.silu(z)
    return y, carry.last_state()


def _run_group(
    carry: Carry, steps: tuple[int, ...], log_decay: Tensor, eigenvalues: EigenRange, *pieces: Tensor | None
) -> Float[Tensor, "R L D"]:
    def advance(state: Tensor, *chunk: Tensor) -> tuple[Tensor, Tensor]:
        # the backward pass runs the chunk again instead of keeping its [L, B, D, N]
        return checkpoint(_scan_chunk, state, log_decay, eigenvalues, *chunk, use_reentrant=False, preserve_rng_state=False)

    return carry.run(steps, advance, *(piece for piece in pieces if piece is not None))


def _scan_chunk(
    state: Float[Tensor, "B D N"],
    log_decay: Float[Tensor, "D N"],
    eigenvalues: EigenRange,
    dtx: Float[Tensor, "B L D"],
    dt: Float[Tensor, "B L D"],
    b: Float[Tensor, "B L N"],
    c: Float[Tensor, "B L N"],
    padding: Tensor | None = None,
) -> tuple[Float[Tensor, "B D N"], Float[Tensor, "B L D"]]:
    dtx, dt, b, c = (tensor.transpose(0, 1) for tensor in (dtx, dt, b, c))  # time first: every step is contiguous
    a = eigenvalues.eigenvalue((dt[..., None] * log_decay).exp_())  # [L, B, D, N]
    if padding is not None:  # exp(0) gives the highest eigenvalue, which may be below 1
        a = a.masked_fill(padding.mT[..., None, None], 1.0)
    states = _LinearScan.apply(a, dtx[..., None] * b[:, :, None, :], state)
    y = (states * c[:, :, None, :]).sum(-1)
    return states[-1], y.transpose(0, 1)


class _LinearScan(torch.autograd.Function):
    """The scan h_t = a_t h_{t-1} + b_t over the first axis, from h, with one fused multiply-add per step."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, h: Tensor) -> Tensor:
        states = torch.empty_like(b)
        previous = h
        for a_t, b_t, state in zip(a, b, states, strict=True):
            previous = torch.addcmul(b_t, a_t, previous, out=state)
        ctx.save_for_backward(a, h, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return, with the adjoint ḣ_t = grad_t + a_{t+1} ḣ_{t+1}:  ∂b_t = ḣ_t,  ∂a_t = ḣ_t h_{t-1},  ∂h = a_1 ḣ_1."""
        a, h, states = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated again
            later = torch.cat([a[1:], torch.zeros_like(a[:1])])
            adjoint = _LinearScan.apply(later.flip(0), grad.flip(0), torch.zeros_like(h)).flip(0)
            return adjoint * torch.cat([h[None], states[:-1]]), adjoint, a[0] * adjoint[0]
        adjoint = grad.clone()
        for t in range(len(a) - 2, -1, -1):
            adjoint[t].addcmul_(a[t + 1], adjoint[t + 1])
        grad_a = torch.empty_like(a)
        torch.mul(adjoint[0], h, out=grad_a[0])
        torch.mul(adjoint[1:], states[:-1], out=grad_a[1:])
        return grad_a, adjoint, a[0] * adjoint[0]
