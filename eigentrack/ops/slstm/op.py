"""sLSTM, the op: a non-linear baseline with exponential gates.

B batch  T time  H heads  D head dim  S sequences
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing, or_zeros
from eigentrack.ops.shared.shapes import check_shapes, state_rows
from eigentrack.ops.slstm.reference import slstm as reference

LARGEST_HEAD = 64  # the four blocks of R must fit into the shared memory of a multiprocessor
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def refusal(
    gates: Tensor,
    *,
    recurrent: Tensor,
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor],
) -> str | None:
    given = {"gates": gates, "recurrent": recurrent, **dict(zip("cnhm", initial_state, strict=True))}
    if (reason := refused_tensor(given, DTYPES)) is not None:
        return reason
    if gates.shape[-1] > LARGEST_HEAD:
        return f"takes heads of up to {LARGEST_HEAD} entries, and D={gates.shape[-1]}"
    return None


def _load() -> Backend:
    from eigentrack.ops.slstm.autograd import slstm

    return slstm


SLSTM = Op("slstm", {"reference": reference}, Kernel(_load, refusal))  # a non-linear recurrence has no parallel form


def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | Packing | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Run an sLSTM and return its outputs h_t and the last state (c, n, h, m), each part [S, H, D].

    Args:
        gates: what the input adds to the gates before their non-linearities, W x_t, in the order (z, i, f, o).
        recurrent: R, by which each head's previous output enters its four gates.
        initial_state: the state before the first token, one row per sequence, (c, n, h, m), each [S, H, D]; None for zeros
            and m = -∞, an empty memory.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton", where the op
            has it.
    """
    packing = Packing.of(gates, cu_seqlens)
    c, n, h, m = initial_state if initial_state is not None else (None, None, None, None)
    shape = f"{state_rows(packing)} H D"
    size = check_shapes(
        "slstm",
        gates=(gates, "B T H 4 D"),
        recurrent=(recurrent, "H 4 D D"),
        **{"c": (c, shape), "n": (n, shape), "h": (h, shape), "m": (m, shape)},
    )
    c, n, h = (or_zeros(part, gates, packing, size["H"], size["D"]) for part in (c, n, h))
    # an empty memory has no scale yet: m = -inf lets the first input set it
    m = torch.full_like(c, -torch.inf) if m is None else m
    return SLSTM.run(
        backend,
        gates,
        recurrent=recurrent,
        initial_state=(c, n, h, m),
        packing=packing,
    )
