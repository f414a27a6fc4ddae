"""Short causal convolution, one filter a channel: y_t = Σ_w weight_w x_{t - width + 1 + w} + bias; and what follows it.

B batch  T time  C channels, c of a part  S sequences  n rows of length one in a part
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.norm import unit
from eigentrack.layers.validation import require_positive
from eigentrack.ops.shared.dispatch import state_dtype
from eigentrack.ops.shared.packing import sequence_lengths

_TRITON = importlib.util.find_spec("triton") is not None
_OF_THE_KERNEL = (torch.float32, torch.bfloat16)
_WIDEST_ROW = 256  # of length one, in the kernel


@dataclass(frozen=True)
class Part:
    """Some of the channels of a convolution; the parts of a call are all of them, one after the other.

    The result is cut into rows of width `unit_rows`, each of which gets length one (0: none does), and multiplied by `scale`.
    """

    x: Float[Tensor, "B T c"]
    unit_rows: int = 0
    scale: float = 1.0


class Convolved(NamedTuple):
    """The parts, finished, and the window for what follows them.

    `roundings`: |row|² before rounding over |row|² after it, [B, T, n], for rows of length one; None where nothing is rounded.
    """

    parts: list[Tensor]
    window: Tensor | None
    roundings: list[Tensor | None]


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
        self, parts: Sequence[Part], window: Float[Tensor, "S past C"], cu_seqlens: Tensor | None, *, silu: bool = False
    ) -> Convolved:
        """All parts, finished, and the window for what follows; no sequence sees the tokens of another."""
        first = parts[0].x
        window = window.to(first.dtype)
        bounds = None
        if cu_seqlens is not None:
            sequence_lengths(first.shape[0], first.shape[1], cu_seqlens)  # wrong bounds are an error
            bounds = cu_seqlens.to(first.device)
        if _takes_the_kernel(parts):
            return self._in_the_kernel(parts, window, bounds, silu)
        x = joined(parts)
        y, window = self._spread(x, window) if bounds is None else self._spread_packed(x, window, bounds)
        finished, roundings = finish(y, parts, silu)
        return Convolved(finished, window, roundings)

    def _spread(self, x: Float[Tensor, "B T C"], window: Tensor) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "S past C"]]:
        extended = torch.cat([window, x], dim=1)
        return self._filter(extended), extended[:, extended.shape[1] - self.width + 1 :]

    def _spread_packed(
        self, x: Float[Tensor, "B T C"], window: Float[Tensor, "S past C"], bounds: Tensor
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "S past C"]]:
        """Every sequence gets its window in front; the outputs that straddle a border are dropped again."""
        past = self.width - 1
        sequences, time, device = len(window), x.shape[1], x.device
        number, token = torch.arange(sequences, device=device), torch.arange(time, device=device)
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
        time = extended.shape[1] - self.width + 1
        taps = [extended[:, lag : lag + time] * self.weight[:, lag] for lag in range(self.width)]
        y = sum(taps[1:], taps[0])
        return (y if self.bias is None else y + self.bias).to(extended.dtype)

    def _in_the_kernel(
        self, parts: Sequence[Part], window: Float[Tensor, "S past C"], bounds: Tensor | None, silu: bool
    ) -> Convolved:
        """Part by part, in place: nothing is joined but the windows."""
        from eigentrack.ops.short_convolution.autograd import short_convolution

        widths = [part.x.shape[2] for part in parts]
        weights, windows = self.weight.split(widths), window.split(widths, dim=-1)
        biases = [None] * len(parts) if self.bias is None else self.bias.split(widths)
        places: tuple[Tensor | None, Tensor | None] = (None, None)
        if bounds is not None:
            token = torch.arange(parts[0].x.shape[1], device=bounds.device, dtype=bounds.dtype)
            places = bounds.int(), torch.searchsorted(bounds[1:], token, right=True, out_int32=True)
        found, roundings = [], []
        for part, past, weight, bias in zip(parts, windows, weights, biases, strict=True):
            y, rounding = short_convolution(
                *(part.x, past, weight, bias, *places), silu=silu, unit=part.unit_rows, scale=part.scale
            )
            found.append(y)
            roundings.append(rounding if part.unit_rows and y.dtype != torch.float32 else None)
        return Convolved(found, last_rows(parts, window, bounds), roundings)


def _takes_the_kernel(parts: Sequence[Part]) -> bool:
    fits = all(part.x.is_cuda and part.x.dtype in _OF_THE_KERNEL and part.unit_rows <= _WIDEST_ROW for part in parts)
    return fits and _TRITON


def joined(parts: Sequence[Part]) -> Float[Tensor, "B T C"]:
    return parts[0].x if len(parts) == 1 else torch.cat([part.x for part in parts], dim=-1)


def finish(y: Float[Tensor, "B T C"], parts: Sequence[Part], silu: bool) -> tuple[list[Tensor], list[Tensor | None]]:
    """What follows the filter, part by part; and what rounding did to rows of length one."""
    y = F.silu(y) if silu else y
    finished, roundings = [], []
    for part, value in zip(parts, y.split([part.x.shape[2] for part in parts], dim=-1), strict=True):
        rounding = None
        if part.unit_rows:
            exact = unit(value.unflatten(-1, (-1, part.unit_rows)).to(state_dtype(value)))
            rounding = _rounding(exact, value.dtype)
            value = exact.to(value.dtype).flatten(-2)
        finished.append(value if part.scale == 1 else value * part.scale)
        roundings.append(rounding)
    return finished, roundings


def _rounding(rows: Float[Tensor, "B T n c"], dtype: torch.dtype) -> Float[Tensor, "B T n"] | None:
    if rows.dtype == dtype:
        return None
    exact = rows.detach()
    before, after = (x.square().sum(-1).clamp_min(torch.finfo(x.dtype).tiny) for x in (exact, exact.to(dtype).to(exact.dtype)))
    return before / after


def last_rows(parts: Sequence[Part], window: Float[Tensor, "S past C"], bounds: Tensor | None) -> Float[Tensor, "S past C"]:
    """The window for what follows: the last rows of each sequence, or of its window where it is shorter."""
    past, time = window.shape[1], parts[0].x.shape[1]
    if bounds is None:
        ends = torch.cat([part.x[:, max(0, time - past) :] for part in parts], dim=-1)
        return torch.cat([window, ends], dim=1)[:, ends.shape[1] :]
    age = (bounds.diff() - past)[:, None] + torch.arange(past, device=bounds.device)  # of the rows that are kept: [S, past]
    is_own = (age >= 0)[..., None]
    row = (bounds[:-1, None] + age).clamp_min(0).flatten()
    own = torch.cat([part.x[0].index_select(0, row) for part in parts], dim=-1).unflatten(0, age.shape)
    older = window.gather(1, (age + past).clamp_max(past - 1)[..., None].expand_as(window))
    return torch.where(is_own, own, older)


def optional_convolution(channels: int, width: int, bias: bool = False) -> ShortConvolution | None:
    """Width 0 means no convolution."""
    return ShortConvolution(channels, width, bias) if width != 0 else None
