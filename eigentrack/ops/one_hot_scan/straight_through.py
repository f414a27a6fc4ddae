"""The straight-through gradient of P_t: forwards its columns are one-hot, backwards they count as a softmax.

With g_t, the gradient of b_t, which is that of h_t through all later tokens, and u_t = d_t ⊙ h_{t-1}, the product P_t u_t gives
the entry i, j of the softmax the gradient g_t[i] u_t[j].

The gradient is not that of any function, as the states do not depend on the softmax. So it has no derivative that would be
right for all that follows, and second derivatives are refused.

B batch  T time  H heads  N entries of the state  M numbers of the state: N, or 2N for pairs  S sequences
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import rotate, rotation

Scan = Callable[..., tuple[Tensor, Any]]


def through_softmax(run: Scan) -> Scan:
    """Return `run`, a backend of one_hot_scan, with one more argument, `softmax`, which gets the gradient of P."""

    @functools.wraps(run)
    def scan(
        a: Float[Tensor, "B T H N"],
        b: Float[Tensor, "B T H M"] | None,
        rows: Int[Tensor, "B T H N"],
        turns: Float[Tensor, "B T H N"] | None = None,
        softmax: Float[Tensor, "B T H N N"] | None = None,
        *,
        initial_state: Float[Tensor, "S H M"],
        packing: Packing | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor]:
        rest = functools.partial(run, packing=packing, **options)
        if softmax is None or not softmax.requires_grad or not torch.is_grad_enabled():
            return rest(a, b, rows, turns, initial_state=initial_state)
        return _ThroughSoftmax.apply(rest, packing, softmax, rows, a, b, turns, initial_state)

    return scan


class _ThroughSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        run: Scan,
        packing: Packing | None,
        softmax: Tensor,
        rows: Tensor,
        a: Tensor,
        b: Tensor | None,
        turns: Tensor | None,
        start: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.run, ctx.packing = run, packing
        ctx.save_for_backward(rows, a, b, turns, start)
        return run(a, b, rows, turns, initial_state=start)

    @staticmethod
    def backward(ctx: Any, dstates: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        """Run the scan once more and differentiate it."""
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "one_hot_scan: the straight-through gradient of P has no second derivatives (create_graph=True); "
                "differentiate twice with softmax=None, where P is constant"
            )
        rows, *given = ctx.saved_tensors
        needed = ctx.needs_input_grad[-len(given) :]
        with torch.enable_grad():
            leaves = [None if x is None else x.detach().requires_grad_() for x in given]
            a, b, turns, start = leaves
            input_of_zero = torch.zeros_like(dstates, requires_grad=True)  # its gradient is g, whether there is b or not
            outputs = ctx.run(a, input_of_zero if b is None else b + input_of_zero, rows, turns, initial_state=start)
            wanted = [x for x, is_needed in zip(leaves, needed, strict=True) if is_needed and x is not None]
            g, *found = torch.autograd.grad(outputs, (input_of_zero, *wanted), (dstates, dlast))
        u = _scaled(_before(outputs[0].detach(), given[-1], ctx.packing), given[0], given[2])
        dsoftmax = torch.einsum("bthic,bthjc->bthij", _entries(g, rows), _entries(u, rows))
        gradients = iter(found)
        return None, None, dsoftmax, None, *(next(gradients) if is_needed else None for is_needed in needed)


def _before(states: Float[Tensor, "B T H M"], start: Float[Tensor, "S H M"], packing: Packing | None) -> Tensor:
    """Return the state before each token."""
    if packing is None:
        return torch.cat([start[:, None], states[:, :-1]], dim=1)
    shifted = torch.cat([start[None, :1], states[:, :-1]], dim=1)
    return shifted.index_copy(1, packing.bounds[:-1], start[None])


def _scaled(h: Float[Tensor, "B T H M"], a: Float[Tensor, "B T H N"], turns: Float[Tensor, "B T H N"] | None) -> Tensor:
    """Return d ⊙ h."""
    turned = h if turns is None else rotate(h, *rotation(turns))
    return (a[..., None] * _entries(turned, a)).flatten(-2)


def _entries(h: Float[Tensor, "B T H M"], like: Shaped[Tensor, "B T H N"]) -> Float[Tensor, "B T H N C"]:
    """Return the numbers of the state, entry by entry."""
    return h.unflatten(-1, (like.shape[-1], -1))
