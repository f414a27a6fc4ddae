"""Which delta rules the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel
from eigentrack.ops.shared.kernel_inputs import check_bounds, refused_tensor

LARGEST_KEY = 128  # a program holds all of K; the kernels compile for 256, but give wrong values on Hopper
MOST_FACTORS = 32  # a chunk holds whole tokens


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    gate: Tensor | None,
    turns: Tensor | None = None,
    *,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"q": q, "k": k, "v": v, "beta": beta, "gate": gate, "turns": turns, "initial_state": initial_state}
    if (reason := refused_tensor(q, given)) is not None:
        return reason
    if gate is not None and gate.ndim == 4:
        return f"takes one gate a head, and this gate has an entry for each {'key channel' if turns is None else 'pair'}"
    if k.shape[-1] > LARGEST_KEY:
        return f"takes keys of up to {LARGEST_KEY} entries, and K={k.shape[-1]}"
    if k.shape[-2] > MOST_FACTORS:
        return f"takes up to {MOST_FACTORS} factors a token, and n={k.shape[-2]}"
    check_bounds(q, cu_seqlens)
    return None


def load() -> Backend:
    from eigentrack.ops.delta_rule.autograd import delta_rule

    return delta_rule


DELTA_RULE_KERNEL = Kernel(load, refusal, automatic=True)
