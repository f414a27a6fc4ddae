"""Short causal convolution, one filter a channel: y_t = Σ_w weight_w x_{t - width + 1 + w} + bias.

B batch  T time  C channels  S sequences
"""

from __future__ import annotations

import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.validation import require_positive
from eigentrack.recurrence.packing import sequence_lengths

_TRITON = importlib.util.find_spec("triton") is not None
_OF_THE_KERNEL = (torch.float32, torch.bfloat16)


class ShortConvolution(nn.Module):
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
        self, x: Float[Tensor, "B T C"], window: Float[Tensor, "S past C"], cu_seqlens: Tensor | None
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "S past C"]]:
        """The convolution and the window for what follows; no sequence sees the tokens of another."""
        past = self.width - 1
        window = window.to(x.dtype)
        if cu_seqlens is None:
            extended = torch.cat([window, x], dim=1)
            return self._filter(extended), extended[:, extended.shape[1] - past :]
        sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)  # wrong bounds are an error
        # every sequence gets its window in front; the outputs that straddle a border are dropped again
        sequences, time, device = len(window), x.shape[1], x.device
        bounds, number = cu_seqlens.to(device), torch.arange(sequences, device=device)
        token = torch.arange(time, device=device)
        before = torch.searchsorted(bounds[1:], token, right=True) * past  # rows of the windows of earlier sequences
        steps = torch.arange(past, device=device)
        fronts, backs = ((edge + number * past)[:, None] + steps for edge in (bounds[:-1], bounds[1:]))
        extended = x.new_zeros(1, time + sequences * past, x.shape[2])
        extended = extended.index_copy(1, fronts.flatten(), window.flatten(0, 1)[None])
        extended = extended.index_copy(1, token + before + past, x)
        y = self._filter(extended).index_select(1, token + before)
        return y, extended[0].index_select(0, backs.flatten()).unflatten(0, (sequences, past))

    def _filter(self, extended: Float[Tensor, "B long C"]) -> Float[Tensor, "B short C"]:
        """In the precision of the input: under autocast that is half, over sums and weights in float32."""
        if extended.is_cuda and extended.dtype in _OF_THE_KERNEL and _TRITON:
            from eigentrack.recurrence.triton.short_convolution import short_convolution

            return short_convolution(extended, self.weight, self.bias)
        time = extended.shape[1] - self.width + 1
        taps = [extended[:, lag : lag + time] * self.weight[:, lag] for lag in range(self.width)]
        y = sum(taps[1:], taps[0])
        return (y if self.bias is None else y + self.bias).to(extended.dtype)


def optional_convolution(channels: int, width: int, bias: bool = False) -> ShortConvolution | None:
    """Width 0 means no convolution."""
    return ShortConvolution(channels, width, bias) if width != 0 else None
