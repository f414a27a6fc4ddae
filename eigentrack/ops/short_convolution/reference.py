"""Short causal convolution, one filter per channel: y_t = Σ_w weight_w x_{t - width + 1 + w} + bias; and what follows it.

B batch  T time  C channels, c of a part  W width of the filter  S sequences  n rows of length one in a part
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.shared.dispatch import state_dtype
from eigentrack.ops.shared.packing import Packing


@dataclass(frozen=True)
class Part:
    """Some of the channels of a convolution; the parts of a call together have all channels, in order.

    The result is cut into rows of width `unit_rows`, each of which gets length one (0: none does), and multiplied by `scale`.
    """

    x: Float[Tensor, "B T c"]
    unit_rows: int = 0
    scale: float = 1.0


class Convolved(NamedTuple):
    """The finished parts, and the window for the tokens that follow.

    `roundings`: |row|² before rounding over |row|² after it, [B, T, n], for rows of length one; None where nothing is rounded.
    """

    parts: list[Tensor]
    window: Tensor | None
    roundings: list[Tensor | None]


def short_convolution(
    parts: Sequence[Part],
    window: Float[Tensor, "S past C"],
    weight: Float[Tensor, "C W"],
    bias: Float[Tensor, " C"] | None,
    *,
    packing: Packing | None,
    silu: bool,
) -> Convolved:
    x = joined(parts)
    if packing is None:
        extended = torch.cat([window, x], dim=1)
        y, window = _filter(extended, weight, bias), extended[:, extended.shape[1] - weight.shape[1] + 1 :]
    else:
        y, window = _filter_packed(x, window, weight, bias, packing)
    finished, roundings = finish(y, parts, silu)
    return Convolved(finished, window, roundings)


def joined(parts: Sequence[Part]) -> Float[Tensor, "B T C"]:
    return parts[0].x if len(parts) == 1 else torch.cat([part.x for part in parts], dim=-1)


def finish(y: Float[Tensor, "B T C"], parts: Sequence[Part], silu: bool) -> tuple[list[Tensor], list[Tensor | None]]:
    """Apply what follows the filter, part by part; return the parts and what rounding did to rows of length one."""
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


def unit(x: Tensor, smallest: float = 1e-6) -> Tensor:
    """Return x / max(|x|, smallest) over the last axis, so that β alone decides the eigenvalue 1 - β |k|² of a key.

    Others add a small number under the root instead; then |k|² < 1 and the eigenvalue -1 is out of reach.
    """
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(smallest)


def last_rows(parts: Sequence[Part], window: Float[Tensor, "S past C"], packing: Packing | None) -> Float[Tensor, "S past C"]:
    """Return the window for the tokens that follow: the last rows of each sequence, after rows of its window if it is short."""
    past, time = window.shape[1], parts[0].x.shape[1]
    if packing is None:
        ends = torch.cat([part.x[:, max(0, time - past) :] for part in parts], dim=-1)
        return torch.cat([window, ends], dim=1)[:, ends.shape[1] :]
    bounds = packing.bounds
    # the age of each row that is kept, [S, past]
    age = (bounds.diff() - past)[:, None] + torch.arange(past, device=bounds.device)
    is_own = (age >= 0)[..., None]
    row = (bounds[:-1, None] + age).clamp_min(0).flatten()
    own = torch.cat([part.x[0].index_select(0, row) for part in parts], dim=-1).unflatten(0, age.shape)
    older = window.gather(1, (age + past).clamp_max(past - 1)[..., None].expand_as(window))
    return torch.where(is_own, own, older)


def _filter(extended: Float[Tensor, "B long C"], weight: Tensor, bias: Tensor | None) -> Float[Tensor, "B short C"]:
    """Return the filtered input in its own dtype; under autocast that is half precision, of sums and weights in float32."""
    width = weight.shape[1]
    time = extended.shape[1] - width + 1
    taps = [extended[:, lag : lag + time] * weight[:, lag] for lag in range(width)]
    y = sum(taps[1:], taps[0])
    return (y if bias is None else y + bias).to(extended.dtype)


def _filter_packed(
    x: Float[Tensor, "B T C"], window: Float[Tensor, "S past C"], weight: Tensor, bias: Tensor | None, packing: Packing
) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "S past C"]]:
    """Filter packed sequences, and return the outputs and the windows for the tokens that follow.

    Each sequence gets its window in front; the outputs that straddle a border are dropped again.
    """
    bounds, past = packing.bounds, weight.shape[1] - 1
    sequences, time, device = len(window), x.shape[1], x.device
    number, token = torch.arange(sequences, device=device), torch.arange(time, device=device)
    before = packing.sequence_of_token() * past  # rows of the windows of earlier sequences
    steps = torch.arange(past, device=device)
    fronts, backs = ((edge + number * past)[:, None] + steps for edge in (bounds[:-1], bounds[1:]))
    extended = x.new_zeros(1, time + sequences * past, x.shape[2])
    extended = extended.index_copy(1, fronts.flatten(), window.flatten(0, 1)[None])
    extended = extended.index_copy(1, token + before + past, x)
    y = _filter(extended, weight, bias).index_select(1, token + before)
    return y, extended[0].index_select(0, backs.flatten()).unflatten(0, (sequences, past))


def _rounding(rows: Float[Tensor, "B T n c"], dtype: torch.dtype) -> Float[Tensor, "B T n"] | None:
    if rows.dtype == dtype:
        return None
    exact = rows.detach()
    before, after = (x.square().sum(-1).clamp_min(torch.finfo(x.dtype).tiny) for x in (exact, exact.to(dtype).to(exact.dtype)))
    return before / after
