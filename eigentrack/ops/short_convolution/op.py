"""The short convolution, the op: a causal filter per channel, then silu and rows of length one where asked for.

B batch  T time  C channels  W width of the filter  S sequences
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.dispatch import Backend, Kernel, Op, refused_tensor
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Convolved, Part
from eigentrack.ops.short_convolution.reference import short_convolution as reference

WIDEST_ROW = 256  # the most entries of a row that the kernel can give length one


def refusal(x: Tensor, parts: Sequence[Part]) -> str | None:
    if (reason := refused_tensor({f"part {n}": part.x for n, part in enumerate(parts)})) is not None:
        return reason
    if (widest := max(part.unit_rows for part in parts)) > WIDEST_ROW:
        return f"takes rows of length one of up to {WIDEST_ROW} entries, and these have {widest}"
    return None


def _load() -> Backend:
    from eigentrack.ops.short_convolution.autograd import short_convolution

    return short_convolution


# the reference is parallel over time, so it also serves as the chunked backend
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
    """Convolve all parts, and return them with the window for the tokens that follow; no sequence sees another's tokens.

    Args:
        parts: the inputs, each with some of the channels, and what follows the filter.
        window: the last W-1 inputs before the first token, one row per sequence.
        weight: one filter of W taps per channel of all parts.
        bias: one number per channel; None for none.
        cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of them;
            None for a plain batch.
        silu: whether silu follows the filter.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """
    first = parts[0].x
    packing, window = Packing.of(first, cu_seqlens), window.to(first.dtype)
    chosen = SHORT_CONVOLUTION.choose(backend, first, parts)
    run = SHORT_CONVOLUTION.function(chosen)
    if packing is None and chosen == "triton" and is_batch_invariant():  # one kernel for batches and packed sequences
        rows = [replace(part, x=part.x.flatten(0, 1)[None]) for part in parts]
        found = run(rows, window, weight, bias, packing=Packing.of_batch(first), silu=silu)
        finished = [x.unflatten(1, first.shape[:2])[0] for x in found.parts]
        roundings = [None if x is None else x.unflatten(1, first.shape[:2])[0] for x in found.roundings]
        return Convolved(finished, found.window, roundings)
    return run(parts, window, weight, bias, packing=packing, silu=silu)
