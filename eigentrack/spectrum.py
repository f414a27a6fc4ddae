"""EigenRange: the interval that holds the eigenvalues of a state-transition matrix A(x).

A diagonal gate s in [0, 1] becomes the eigenvalue  low + (high - low) s.
A generalized Householder factor I - b k kᵀ with a unit key has the eigenvalue 1 - b along k and 1 elsewhere;
the range bounds that one eigenvalue, so b lies in [1 - high, 1 - low].
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class EigenRange:
    """Eigenvalues from `low` to `high`: `EigenRange(0, 1)` forgets, `EigenRange(-1, 1)` can also flip, hence track state."""

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"EigenRange {name}={value!r} must be a finite number in [-1, 1]")
            if abs(value) > 1:
                raise ValueError(
                    f"EigenRange {name}={value:g} lies outside [-1, 1]: a transition of norm > 1 makes the state diverge"
                )
            object.__setattr__(self, name, float(value))
        if not self.low < self.high:
            raise ValueError(f"EigenRange low={self.low:g} must be below high={self.high:g}")

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"

    def eigenvalue(self, gate: Tensor) -> Tensor:
        """The eigenvalue of a gate in [0, 1]: gate 0 gives exactly `low`, gate 1 exactly `high`."""
        return _between(self.low, self.high, gate)

    def beta(self, logit: Tensor) -> Tensor:
        """b = 1 - eigenvalue along a unit key; [0, 1] gives σ(logit), [-1, 1] gives 2σ(logit)."""
        return _between(1 - self.high, 1 - self.low, torch.sigmoid(logit))

    @classmethod
    def parse(cls, text: str) -> EigenRange:
        """Reads "[-1, 1]" or "-1,1" or "-1 1"."""
        parts = re.split(r"[\s,]+", text.strip().strip("[]").strip())
        try:
            low, high = (float(part) for part in parts)
        except ValueError:
            raise ValueError(f"eigenvalue range {text!r} is not two numbers: write it as -1,1 or [0, 1]") from None
        return cls(low, high)


def _between(start: float, end: float, weight: Tensor) -> Tensor:
    if (start, end) == (0, 1):
        return weight
    # torch.lerp meets both ends exactly: it switches formula at weight ½; filled where they are used, since a CUDA graph can
    # hold no copy from the host
    return torch.lerp(weight.new_full((), start), weight.new_full((), end), weight)
