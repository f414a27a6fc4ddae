"""Widening: a layer that was trained with its eigenvalues e in one range gets a wider one, at first with the same output.

In the range [-1, 1], with t in (-1, 1):  e' = (e - t) / (1 - e t).  t = tanh(shift), and the shift is an affine function of the
input that starts at 0. For t = 0, e' = e. The two ends of the range are fixed, and t → 1 moves everything between them to the
lower end. See docs/derivations/widening.md.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigentrack.spectrum import EigenRange, Eigenvalues

LARGEST_SHIFT = 10.0  # it changes the odds by a factor of e^20; a larger shift makes no difference in float32


class Widening(nn.Module):
    """A map from eigenvalues in the range `before` to eigenvalues in the wider range `after`.

    `shift` is a projection from `inputs` to `outputs` channels, one for each eigenvalue that has a shift of its own.
    """

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
        """Return b' = 1 - e' for b = 1 - e.

        The odds w / (1 - w) of the place w of b in its range are multiplied by exp(2 shift).
        """
        start, width = 1 - self.after.high, self.after.high - self.after.low
        place, doubled = (beta - start) / width, 2 * shift.clamp(-LARGEST_SHIFT, LARGEST_SHIFT)
        up, down = place * torch.sigmoid(doubled), (1 - place) * torch.sigmoid(-doubled)
        return start + width * up / (up + down)  # with shift 0, the result is bitwise equal to beta

    def eigenvalue(self, eigenvalue: Tensor, shift: Tensor) -> Tensor:
        """Return e' for the eigenvalue e."""
        return 1 - self.beta(1 - eigenvalue, shift)


def optional_widening(
    before: EigenRange | None, after: Eigenvalues, inputs: int, outputs: int, *, overshoots: bool = False
) -> Widening | None:
    """Return the widening from `before` to `after`, or None if `before` is None.

    Args:
        before: the range before widening.
        after: the wider range.
        inputs: the number of inputs of the shift.
        outputs: the number of shifts.
        overshoots: whether the layer uses b of its range, for which `before` may have an overshoot.
    """
    if isinstance(before, EigenRange) and before.overshoot and not overshoots:
        raise ValueError(f"widened_from={before}: the eigenvalues of this layer come from no b that could overshoot")
    return None if before is None else Widening(before, after, inputs, outputs)
