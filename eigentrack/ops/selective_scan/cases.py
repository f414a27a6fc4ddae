"""Which selective scans the Triton kernels take. Imports no triton: the answer comes before the kernels are loaded."""

from __future__ import annotations

from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel
from eigentrack.ops.shared.kernel_inputs import check_bounds, refused_tensor
from eigentrack.spectrum import EigenRange

LARGEST_STATE = 64  # a program holds all of N


def refusal(
    x: Tensor,
    dt: Tensor,
    b: Tensor,
    c: Tensor,
    z: Tensor | None,
    turns: Tensor | None = None,
    *,
    log_decay: Tensor,
    skip: Tensor | None,
    eigenvalues: EigenRange,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> str | None:
    given = {"x": x, "dt": dt, "b": b, "c": c, "z": z, "turns": turns, "log_decay": log_decay, "skip": skip}
    given |= {"initial_state": initial_state}
    if (reason := refused_tensor(x, given)) is not None:
        return reason
    if b.shape[-1] > LARGEST_STATE:
        return f"takes states of up to {LARGEST_STATE} entries a channel, and N={b.shape[-1]}"
    check_bounds(x, cu_seqlens)
    return None


def load() -> Backend:
    from eigentrack.ops.selective_scan.autograd import selective_scan

    return selective_scan


SELECTIVE_SCAN_KERNEL = Kernel(load, refusal, automatic=True)
