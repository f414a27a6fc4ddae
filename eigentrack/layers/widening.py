"""Widening: a layer trained with its eigenvalues e in one range goes on in a wider one, at first as the same function.

In the range [-1, 1], with t in (-1, 1):  e' = (e - t) / (1 - e t).  t = tanh(shift), and the shift is an affine function of the
input that starts at 0. e' = e where t = 0; the two ends of the range stay where they are, and t → 1 takes all between them to
the lower end. docs/derivations/widening.md derives it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigentrack.spectrum import EigenRange, Eigenvalues

LARGEST_SHIFT = 10.0  # the odds change by up to e^20: beyond that nothing moves any more in float32


class Widening(nn.Module):
    """From the range `before` to `after`; `shift` has one output for each eigenvalue that can move on its own."""

    def __init__(self, before: EigenRange, after: Eigenvalues, inputs: int, outputs: int) -> None:
        super().__init__()
        if not isinstance(before, EigenRange):
            raise ValueError(f"widened_from={before!r} must be an EigenRange, such as EigenRange(0, 1)")
        if not isinstance(after, EigenRange):
            raise ValueError(f"eigenvalues={after} has angles, which no real range {before} is widened to: give a range")
        if after.overshoot:
            raise ValueError(f"eigenvalues={after}: the overshoot of a widened layer belongs to widened_from={before}")
        if before.ends == after.ends or before.low < after.low or before.high > after.high:
            raise ValueError(f"eigenvalues={after} must be wider than widened_from={before}, and hold all of it")
        self.before, self.after = before, after
        self.shift = nn.Linear(inputs, outputs)
        nn.init.zeros_(self.shift.weight)
        nn.init.zeros_(self.shift.bias)

    def beta(self, beta: Tensor, shift: Tensor) -> Tensor:
        """b' = 1 - e' of b = 1 - e: the odds of b's place w in its range, w / (1 - w), times exp(2 shift)."""
        start, width = 1 - self.after.high, self.after.high - self.after.low
        place, doubled = (beta - start) / width, 2 * shift.clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
        up, down = place * torch.sigmoid(doubled), (1 - place) * torch.sigmoid(-doubled)
        return start + width * up / (up + down)  # without a shift, to the bit what it was

    def eigenvalue(self, eigenvalue: Tensor, shift: Tensor) -> Tensor:
        return 1 - self.beta(1 - eigenvalue, shift)


def optional_widening(
    before: EigenRange | None, after: Eigenvalues, inputs: int, outputs: int, *, overshoots: bool = False
) -> Widening | None:
    """Return the widening, None without a range to widen; `overshoots`: whether the layer asks its range for b."""
    if isinstance(before, EigenRange) and before.overshoot and not overshoots:
        raise ValueError(f"widened_from={before}: the eigenvalues of this layer come from no b that could overshoot")
    return None if before is None else Widening(before, after, inputs, outputs)
