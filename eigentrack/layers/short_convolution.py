"""ShortConvolution: the parameters of a short causal convolution, and the window that it carries from call to call.

C channels  S sequences
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.validation import require_positive
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.op import short_convolution
from eigentrack.ops.short_convolution.reference import Convolved, Part


class ShortConvolution(nn.Module):
    """A filter of `width` taps for each channel; equations in `ops/short_convolution/reference.py`."""

    def __init__(self, channels: int, width: int, bias: bool) -> None:
        super().__init__()
        require_positive(channels=channels, width=width)
        self.width = width
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def initial_window(self, sequences: int) -> Float[Tensor, "S past C"]:
        return self.weight.new_zeros(sequences, self.width - 1, self.weight.shape[0])

    def forward(
        self,
        parts: Sequence[Part],
        window: Float[Tensor, "S past C"],
        cu_seqlens: Tensor | Packing | None,
        *,
        silu: bool = False,
        backend: str = "auto",
    ) -> Convolved:
        """Return all parts, finished, and the window for what follows; no sequence sees the tokens of another."""
        return short_convolution(parts, window, self.weight, self.bias, cu_seqlens=cu_seqlens, silu=silu, backend=backend)


def optional_convolution(channels: int, width: int, bias: bool = False) -> ShortConvolution | None:
    """Width 0 means no convolution."""
    return ShortConvolution(channels, width, bias) if width != 0 else None
