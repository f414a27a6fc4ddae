"""The short convolution, the op: a causal filter per channel, then silu and rows of length one where asked for.

B batch  T time  C channels  W width of the filter  S sequences
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Convolved, Part
from eigentrack.ops.short_convolution.reference import short_convolution as reference

WIDEST_ROW = 256  # of length one, in the kernel


def refusal(x: Tensor, parts: Sequence[Part]) -> str | None:
    if (reason := refused_tensor({f"part {n}": part.x for n, part in enumerate(parts)})) is not None:
        return reason
    if (widest := max(part.unit_rows for part in parts)) > WIDEST_ROW:
        return f"takes rows of length one of up to {WIDEST_ROW} entries, and these have {widest}"
    return None


def _load() -> Backend:
    from eigentrack.ops.short_convolution.autograd import short_convolution

    return short_convolution


# the definition is parallel over time as it stands, so it serves as both
SHORT_CONVOLUTION = Op("short_convolution", {"reference": reference, "chunked": reference}, Kernel(_load, refusal))


def short_convolution(
    parts: Sequence[Part],
    window: Float[Tensor, "S past C"],
    weight: Float[Tensor, "C W"],
    bias: Float[Tensor, " C"] | None = None,
    *,
    cu_seqlens: Tensor | Packing | None = None,
    silu: bool = False,
    backend: str = "auto",
) -> Convolved:
    """Return all parts, finished, and the window for what follows; no sequence sees the tokens of another."""
    first = parts[0].x
    packing, window = Packing.of(first, cu_seqlens), window.to(first.dtype)
    run = SHORT_CONVOLUTION.function(SHORT_CONVOLUTION.choose(backend, first, parts))
    return run(parts, window, weight, bias, packing=packing, silu=silu)
