"""The delta rule in chunks: it has the factors r = b k, w = k, t = b v of the system that `low_rank/chunked.py` solves.

B batch  T time  H heads  n factors  K key dim  V value dim  S sequences
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.low_rank.chunked import in_chunks
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import delta_rule_in_frame


@delta_rule_in_frame
def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | None,
    *,
    initial_state: Float[Tensor, "S H K V"],
    packing: Packing | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    def factors(k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return beta * k, k, beta * v

    parts = (k, v, beta[..., None])
    return in_chunks(q, parts, factors, gate, False, initial_state, packing, chunk_size)
