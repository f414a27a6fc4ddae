"""The largest singular value of each of many small matrices, by products of matrices alone.

With G = MᵀM and p = 2^m, (tr Gᵖ)^{1/2p} lies between |M| and n^{1/2p} |M|. Squaring m times, and dividing by the trace t_k each
time, gives it without overflow:

    |M|² = t_0 · t_1^{1/2} · t_2^{1/4} ···      and      Gᵖ / tr Gᵖ → W,   ∂|M| / ∂M = M W / |M|

W is the projection onto the singular vectors of the largest value, divided by their number. An algorithm that iterates until it
has converged must look at its progress, which no CUDA graph can; m squarings need no look. First derivatives only.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

MOST_FOR_W = 30  # squarings: each doubles the rounding errors of W, and values that differ by 1e-9 are apart by then


def spectral_norm(matrices: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch 1 1"]:
    return _SpectralNorm.apply(matrices)


class _SpectralNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:
        kind, n = torch.finfo(matrices.dtype), matrices.shape[-1]
        squarings = math.ceil(2 - math.log2(kind.eps) + math.log2(max(1.0, math.log(n))))  # n^{1/2p} - 1 is below eps / 8
        exact = matrices.double()  # neither autocast nor TF32 rounds its products
        power = exact.mT @ exact
        logarithm = torch.zeros_like(power[..., :1, :1])
        projection = power
        for k in range(squarings + 1):
            trace = power.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None].clamp_min(kind.tiny)
            logarithm = logarithm + trace.log() * 2.0**-k
            power = power / trace
            if k <= MOST_FOR_W:
                projection = power
            if k < squarings:
                power = power @ power
        norm = (logarithm / 2).exp().clamp_min(kind.tiny)
        ctx.save_for_backward((exact @ projection / norm).to(matrices.dtype))
        return norm.to(matrices.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dnorm: Tensor) -> Tensor:
        (derivative,) = ctx.saved_tensors
        return dnorm * derivative
