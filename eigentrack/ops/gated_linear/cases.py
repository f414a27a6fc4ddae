"""Which gated linear attentions the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel
from eigentrack.ops.shared.kernel_inputs import check_bounds, refused_tensor


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "a": a, "turns": turns, "initial_state": initial_state}
    if (reason := refused_tensor(q, given)) is not None:
        return reason
    check_bounds(q, cu_seqlens)
    return None


def load() -> Backend:
    from eigentrack.ops.gated_linear.autograd import gated_linear

    return gated_linear


GATED_LINEAR_KERNEL = Kernel(load, refusal, automatic=True)
