"""The short convolution on a GPU, with silu and rows of length one where asked for: the kernels as a function that autograd
differentiates. Inputs are float32 or bfloat16, the output has the dtype of x, and sums are float32.

B batch  T time  C channels  W width of the filter  S sequences  n heads whose rows get length one
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.autograd import DifferentiableKernels
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution import launch
from eigentrack.ops.short_convolution.reference import Convolved, Part, last_rows

KERNELS = DifferentiableKernels("short_convolution", launch, constant=("rounding",))


def short_convolution(
    parts: Sequence[Part],
    window: Float[Tensor, "S past C"],
    weight: Float[Tensor, "C W"],
    bias: Float[Tensor, " C"] | None,
    *,
    packing: Packing | None,
    silu: bool,
) -> Convolved:
    """Convolve each part where it lies in memory; only the windows are joined."""
    widths = [part.x.shape[2] for part in parts]
    weights, windows = weight.split(widths), window.split(widths, dim=-1)
    biases = [None] * len(parts) if bias is None else bias.split(widths)
    places = (None, None) if packing is None else (packing.bounds.int(), packing.sequence_of_token().int())
    found, roundings = [], []
    for part, past, filters, offset in zip(parts, windows, weights, biases, strict=True):
        y, rounding = KERNELS(part.x, past, filters, offset, *places, silu, part.unit_rows, part.scale)
        found.append(y)
        roundings.append(rounding if part.unit_rows and y.dtype != torch.float32 else None)
    return Convolved(found, last_rows(parts, window, packing), roundings)
