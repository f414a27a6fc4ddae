"""Mamba's selective scan, the op.

B batch  T time  D channels  N state size  P = N/2 pairs  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.selective_scan.chunked import selective_scan as chunked
from eigentrack.ops.selective_scan.reference import selective_scan as reference
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_pairs, check_shapes, state_rows
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
) -> str | None:
    given = {"x": x, "dt": dt, "b": b, "c": c, "z": z, "turns": turns, "log_decay": log_decay, "skip": skip}
    given |= {"initial_state": initial_state}
    if (reason := refused_tensor(given)) is not None:
        return reason
    if b.shape[-1] > LARGEST_STATE:
        return f"takes states of up to {LARGEST_STATE} entries a channel, and N={b.shape[-1]}"
    return None


def _load() -> Backend:
    from eigentrack.ops.selective_scan.autograd import selective_scan

    return selective_scan


SELECTIVE_SCAN = Op(
    "selective_scan",
    {"reference": reference, "chunked": chunked},
    Kernel(_load, refusal),
    opaque=frozenset({"chunked"}),  # it writes into parts of tensors
)


def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None = None,
    turns: Float[Tensor, "B T P"] | None = None,
    *,
    log_decay: Float[Tensor, "D N"] | Float[Tensor, "D P"],
    skip: Float[Tensor, " D"] | None = None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "S D N"] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Run Mamba's selective scan and return y and the last state [S, D, N].

    h_t = a_t R(θ_t) h_{t-1} + dt_t b_t x_t with a_t = exp(dt_t A) mapped to the range of `eigenvalues`, and
    y_t = (Σ_n c_t h_t + skip x_t) silu(z_t).

    Args:
        x: the inputs, one per channel.
        dt: the step sizes, at least 0.
        b: the input vectors, which all channels share.
        c: the read-out vectors, which all channels share.
        z: the output gate before its silu; None for no gate.
        turns: angles θ in turns, one for each of the P = N/2 pairs of entries of the state, which make the eigenvalues complex;
            None for real eigenvalues.
        log_decay: A, at most 0, one number per channel and entry of the state; with `turns` per channel and pair.
        skip: the factors with which x is added to the output; None for no such term.
        eigenvalues: the range of the eigenvalues a_t.
        initial_state: the state before the first token, one row per sequence, [S, D, N]; None for zeros.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(x, cu_seqlens)
    check_pairs("selective_scan", "N", b, turns)
    size = check_shapes(
        "selective_scan",
        x=(x, "B T D"),
        dt=(dt, "B T D"),
        b=(b, "B T N"),
        c=(c, "B T N"),
        z=(z, "B T D"),
        turns=(turns, "B T P"),
        log_decay=(log_decay, "D N" if turns is None else "D P"),
        skip=(skip, "D"),
        initial_state=(initial_state, f"{state_rows(packing)} D N"),
    )
    return SELECTIVE_SCAN.run(
        backend,
        *(x, dt, b, c, z, turns),
        log_decay=log_decay,
        skip=skip,
        eigenvalues=eigenvalues,
        initial_state=initial_state,
        zero_state=lambda: or_zeros(None, x, packing, size["D"], size["N"]),
        packing=packing,
    )
