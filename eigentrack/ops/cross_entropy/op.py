"""Cross-entropy of a linear head that never holds all logits: L = Σ_n [logsumexp_v(z_nv) - z_n,target(n)],  z = x Wᵀ.

The gradient is known as soon as a chunk of logits is:  ∂L/∂z_nv = softmax(z_n)_v - [v = target(n)],  so the forward pass
computes the chunk's share of ∂L/∂x and ∂L/∂W at once, and drops the logits.

reference   all logits at once, differentiated by torch
chunked     a few tokens at a time, in plain torch
triton      a few tokens at a time, with a kernel for the rows of logits

N tokens  d model width  V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.shared.autograd import refuse_second_derivatives
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor, state_dtype

IGNORED = -100  # the target of a token that does not count in the loss, as in torch
CHUNK_ENTRIES = 2**26  # logits held at once: enough to keep a GPU busy, 128 MiB in bfloat16


def reference(
    x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"], chunk: int
) -> Float[Tensor, ""]:
    logits = F.linear(x, weight).to(state_dtype(x))
    return F.cross_entropy(logits, targets.long(), ignore_index=IGNORED, reduction="sum")


def chunked(x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"], chunk: int) -> Float[Tensor, ""]:
    wanted = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _SummedCrossEntropy.apply("chunked", _losses_of_rows, x, weight, targets, chunk, wanted)


def with_kernel(
    x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"], chunk: int
) -> Float[Tensor, ""]:
    wanted = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _SummedCrossEntropy.apply("triton", _kernel_of_rows(), x, weight, targets, chunk, wanted)


def refusal(x: Tensor, weight: Tensor) -> str | None:
    return refused_tensor({"x": x, "weight": weight})


def _load() -> Backend:
    return with_kernel


CROSS_ENTROPY = Op("cross_entropy", {"reference": reference, "chunked": chunked}, Kernel(_load, refusal))


def summed_cross_entropy(
    x: Float[Tensor, "N d"],
    weight: Float[Tensor, "V d"],
    targets: Int[Tensor, " N"],
    *,
    chunk: int | None = None,
    backend: str = "auto",
) -> Float[Tensor, ""]:
    """Return the cross-entropy, summed over all tokens whose target is not IGNORED, in float32 or float64.

    Args:
        x: the inputs of the head.
        weight: W of the head, without a bias.
        targets: the right entry of the vocabulary for each token, or IGNORED.
        chunk: tokens whose logits are held at once; None for as many as CHUNK_ENTRIES allows.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """
    run = CROSS_ENTROPY.function(CROSS_ENTROPY.choose(backend, x, weight))
    return run(x, weight, targets, _tokens_at_a_time(weight) if chunk is None else chunk)


@torch.no_grad()
def each_cross_entropy(
    x: Float[Tensor, "N d"], weight: Float[Tensor, "V d"], targets: Int[Tensor, " N"], *, backend: str = "auto"
) -> Float[Tensor, " N"]:
    """Return the cross-entropy of every token by itself, 0 where its target is IGNORED; it has no gradient.

    Args:
        x: the inputs of the head.
        weight: W of the head, without a bias.
        targets: the right entry of the vocabulary for each token, or IGNORED.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """
    chunk, chosen = _tokens_at_a_time(weight), CROSS_ENTROPY.choose(backend, x, weight)
    losses_of_rows = _kernel_of_rows() if chosen == "triton" else _losses_of_rows
    parts = (slice(start, start + chunk) for start in range(0, len(x), chunk))
    return torch.cat([losses_of_rows(F.linear(x[part], weight), targets[part], False) for part in parts])


def _tokens_at_a_time(weight: Float[Tensor, "V d"]) -> int:
    return max(1, CHUNK_ENTRIES // weight.shape[0])


class _SummedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        backend: str,
        losses_of_rows: Callable[[Tensor, Tensor, bool], Tensor],
        x: Tensor,
        weight: Tensor,
        targets: Tensor,
        chunk: int,
        wanted: bool,
    ) -> Tensor:
        total = torch.zeros((), dtype=state_dtype(x), device=x.device)
        x_gradient = torch.empty_like(x) if wanted else None
        weight_gradient = torch.zeros_like(weight, dtype=state_dtype(weight)) if wanted else None
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            logits = F.linear(x[part], weight)
            total += losses_of_rows(logits, targets[part], wanted).sum()
            if x_gradient is not None and weight_gradient is not None:
                torch.mm(logits, weight, out=x_gradient[part])  # the logits hold ∂L/∂z now
                weight_gradient += logits.mT @ x[part]
        ctx.backend = backend
        if x_gradient is not None and weight_gradient is not None:
            ctx.save_for_backward(x_gradient, weight_gradient.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, Tensor, None, None, None]:
        refuse_second_derivatives("cross_entropy", ctx.backend)
        (outer,) = gradients
        x_gradient, weight_gradient = ctx.saved_tensors
        scaled = (x_gradient * outer.to(x_gradient.dtype), weight_gradient * outer.to(weight_gradient.dtype))
        return None, None, *scaled, None, None, None


def _losses_of_rows(logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], slope: bool) -> Float[Tensor, " n"]:
    """Return the loss of each row; if `slope`, overwrite the logits with ∂L/∂z."""
    asked = targets != IGNORED
    answers = torch.where(asked, targets, 0).long()[:, None]
    log_share = torch.log_softmax(logits, -1, dtype=state_dtype(logits))
    losses = torch.where(asked, -log_share.gather(1, answers)[:, 0], 0)
    if slope:
        torch.exp(log_share, out=logits)
        logits.scatter_add_(1, answers, logits.new_full(answers.shape, -1.0)).mul_(asked[:, None])
    return losses


def _kernel_of_rows() -> Callable[[Tensor, Tensor, bool], Tensor]:
    from eigentrack.ops.cross_entropy.kernel import losses_of_rows

    return lambda logits, targets, slope: losses_of_rows(logits, targets, IGNORED, slope=slope)
