"""Cross-entropy of a linear head that never holds all logits: L = Σ_n [logsumexp_v(z_nv) - z_n,target(n)],  z = x Wᵀ.

The gradient is known as soon as a chunk of logits is:  ∂L/∂z_nv = softmax(z_n)_v - [v = target(n)],  so the forward pass takes
the chunk's share of ∂L/∂x and ∂L/∂W at once, and forgets the logits.

N tokens  d model width  V vocabulary
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

_TRITON = importlib.util.find_spec("triton") is not None
IGNORED = -100  # the target of a token that is not asked for, as in torch
CHUNK_ENTRIES = 2**26  # logits at a time: enough to keep a GPU busy, 128 MiB in bfloat16


def summed_cross_entropy(
    x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"], *, chunk: int | None = None
) -> Float[Tensor, ""]:
    """The sum over all tokens whose target is not IGNORED, in float32 or better; `chunk` tokens at a time."""
    chunk = _tokens_at_a_time(weight) if chunk is None else chunk
    wanted = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _SummedCrossEntropy.apply(x, weight, targets, chunk, wanted)


@torch.no_grad()
def each_cross_entropy(
    x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """Of every token by itself, 0 where its target is IGNORED; for measuring, without a gradient."""
    chunk = _tokens_at_a_time(weight)
    parts = (slice(start, start + chunk) for start in range(0, len(x), chunk))
    return torch.cat([_losses_of_rows(F.linear(x[part], weight), targets[part], False) for part in parts])


def _tokens_at_a_time(weight: Float[Tensor, "V d"]) -> int:
    return max(1, CHUNK_ENTRIES // weight.shape[0])


class _SummedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, chunk: int, wanted: bool) -> Tensor:
        total = torch.zeros((), dtype=_sum_dtype(x), device=x.device)
        x_gradient = torch.empty_like(x) if wanted else None
        weight_gradient = torch.zeros_like(weight, dtype=_sum_dtype(weight)) if wanted else None
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            logits = F.linear(x[part], weight)
            total += _losses_of_rows(logits, targets[part], wanted).sum()
            if x_gradient is not None and weight_gradient is not None:
                torch.mm(logits, weight, out=x_gradient[part])  # they are the slope now
                weight_gradient += logits.mT @ x[part]
        if x_gradient is not None and weight_gradient is not None:
            ctx.save_for_backward(x_gradient, weight_gradient.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (outer,) = gradients
        x_gradient, weight_gradient = ctx.saved_tensors
        return x_gradient * outer.to(x_gradient.dtype), weight_gradient * outer.to(weight_gradient.dtype), None, None, None


def _losses_of_rows(logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], slope: bool) -> Float[Tensor, " n"]:
    """With `slope`, the logits become ∂L/∂z."""
    if logits.is_cuda and logits.dtype in (torch.float32, torch.bfloat16) and _TRITON:
        from eigentrack.ops.cross_entropy.kernel import losses_of_rows

        return losses_of_rows(logits, targets, IGNORED, slope=slope)
    asked = targets != IGNORED
    answers = torch.where(asked, targets, 0).long()[:, None]
    log_share = torch.log_softmax(logits, -1, dtype=_sum_dtype(logits))
    losses = torch.where(asked, -log_share.gather(1, answers)[:, 0], 0)
    if slope:
        torch.exp(log_share, out=logits)
        logits.scatter_add_(1, answers, logits.new_full(answers.shape, -1.0)).mul_(asked[:, None])
    return losses


def _sum_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
