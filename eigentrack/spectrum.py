"""The set that holds the eigenvalues of a state-transition matrix A(x): EigenRange, an interval; EigenDisk, a disk or annulus;
EigenPolygon, a regular polygon on the unit circle.

A diagonal gate s in [0, 1] becomes the eigenvalue  low + (high - low) s.
A generalized Householder factor I - b k kᵀ with a unit key has the eigenvalue 1 - b along k and 1 elsewhere;
the range bounds that one eigenvalue, so b lies in [1 - high, 1 - low].
A gate s and an angle, counted in turns, become the eigenvalue  (inner + (outer - inner) s) exp(2πi turn)  of a disk.
Weights p_0 … p_{m-1} that sum to one become the eigenvalue  Σ_j p_j exp(2πi j/m)  of a polygon.

All have `radial`, the range of the real factor, and `turns`, whether there is an angle besides, and are written alike: as text
(`str` and `parse_eigenvalues`) and in JSON (`to_json` and `eigenvalues_from_json`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

FEWEST_CORNERS, MOST_CORNERS = 3, 1024
TINY = 1e-12


@dataclass(frozen=True)
class EigenRange:
    """Eigenvalues from `low` to `high`: `EigenRange(0, 1)` forgets, `EigenRange(-1, 1)` can also flip, hence track state."""

    low: float
    high: float
    turns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            why = "a transition of norm > 1 makes the state diverge"
            object.__setattr__(self, name, _bounded(f"EigenRange {name}", getattr(self, name), -1, why))
        if not self.low < self.high:
            raise ValueError(f"EigenRange low={self.low:g} must be below high={self.high:g}")

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"

    @property
    def radial(self) -> EigenRange:
        """The range of the real factor of an eigenvalue: all of it, as nothing turns."""
        return self

    def to_json(self) -> list[float]:
        return [self.low, self.high]

    def eigenvalue(self, gate: Tensor) -> Tensor:
        """The eigenvalue of a gate in [0, 1]: gate 0 gives exactly `low`, gate 1 exactly `high`."""
        return _between(self.low, self.high, gate)

    def gate(self, eigenvalue: float) -> float:
        """The gate that has this eigenvalue."""
        self._require_inside(eigenvalue)
        return (eigenvalue - self.low) / (self.high - self.low)

    def beta(self, logit: Tensor, overshoot: float = 0.0) -> Tensor:
        """b = 1 - eigenvalue along a unit key; [0, 1] gives σ(logit), [-1, 1] gives 2σ(logit).

        `overshoot` stretches σ by this share of its height beyond both ends and cuts it there, so that finite logits reach the
        ends: log((1 + s) / s) for a share of s, ±3.04 for 0.05, where σ alone takes 17 in float32. Beyond them the slope is 0.
        """
        share = torch.sigmoid(logit)
        if overshoot:
            share = ((1 + 2 * overshoot) * share - overshoot).clamp(0, 1)
        return _between(1 - self.high, 1 - self.low, share)

    def beta_logit(self, eigenvalue: float, overshoot: float = 0.0) -> float:
        """The logit whose b has this eigenvalue along the key."""
        self._require_inside(eigenvalue)
        beyond = overshoot * (self.high - self.low)
        return math.log((self.high + beyond - eigenvalue) / (eigenvalue - self.low + beyond))

    def _require_inside(self, eigenvalue: float) -> None:
        if not self.low < eigenvalue < self.high:
            raise ValueError(f"eigenvalue {eigenvalue:g} must lie inside of {self}, without its ends")

    @classmethod
    def parse(cls, text: str) -> EigenRange:
        """Reads "[-1, 1]" or "-1,1" or "-1 1"."""
        parts = re.split(r"[\s,]+", text.strip().strip("[]").strip())
        try:
            low, high = (float(part) for part in parts)
        except ValueError:
            raise ValueError(f"eigenvalue range {text!r} is not two numbers: write it as -1,1 or [0, 1]") from None
        return cls(low, high)


@dataclass(frozen=True)
class EigenDisk:
    """Eigenvalues of modulus `inner` to `outer` and any angle: `EigenDisk()` can turn, hence count modulo every number."""

    inner: float = 0.0
    outer: float = 1.0
    turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("inner", "outer"):
            why = "a modulus is not negative, and above 1 it makes the state diverge"
            object.__setattr__(self, name, _bounded(f"EigenDisk {name}", getattr(self, name), 0, why))
        if not self.inner < self.outer:
            raise ValueError(f"EigenDisk inner={self.inner:g} must be below outer={self.outer:g}")

    def __str__(self) -> str:
        if self.inner:
            return f"annulus {self.inner:g} {self.outer:g}"
        return "disk" if self.outer == 1 else f"disk {self.outer:g}"

    @property
    def radial(self) -> EigenRange:
        """The range of the real factor of an eigenvalue, its modulus."""
        return EigenRange(self.inner, self.outer)

    def to_json(self) -> dict[str, list[float]]:
        return {"disk": [self.inner, self.outer]}


@dataclass(frozen=True)
class EigenPolygon:
    """Eigenvalues in the regular polygon whose corners are the m-th roots of unity, as [-1, 1] is for m = 2.

    A gate is a choice among the corners, by weights that sum to one. A sharp choice is a corner, up to rounding: so a layer
    learns to count modulo m (or a divisor of m) as it learns to classify, and its angles need no tuning. A choice that is not
    sharp lies inside and forgets; equal weights give 0.
    """

    corners: int
    turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count = self.corners
        if isinstance(count, bool) or not isinstance(count, int) or not FEWEST_CORNERS <= count <= MOST_CORNERS:
            limits = f"from {FEWEST_CORNERS} to {MOST_CORNERS}"
            raise ValueError(
                f"EigenPolygon corners={count!r} must be a whole number {limits}; for two there is EigenRange(-1, 1)"
            )

    def __str__(self) -> str:
        return f"polygon {self.corners}"

    @property
    def radial(self) -> EigenRange:
        """The range of the real factor of an eigenvalue, its modulus."""
        return EigenRange(0, 1)

    def to_json(self) -> dict[str, int]:
        return {"polygon": self.corners}

    def eigenvalue(self, weights: Float[Tensor, "*batch m"]) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
        """Modulus and turn; at 0, where no angle is defined and a gradient would be infinite, that of a corner 1e-12 away."""
        angles = 2 * math.pi / self.corners * torch.arange(self.corners, dtype=torch.float64, device=weights.device)
        cosine, sine = angles.cos().to(weights.dtype), angles.sin().to(weights.dtype)
        # summed, not multiplied as matrices: those may be rounded to TF32, and an angle must not
        real, imaginary = (weights * cosine).sum(-1) + TINY, (weights * sine).sum(-1)
        return torch.hypot(real, imaginary).clamp(max=1), torch.atan2(imaginary, real) / (2 * math.pi)


Eigenvalues = EigenRange | EigenDisk | EigenPolygon


def parse_eigenvalues(text: str) -> Eigenvalues:
    """Reads "[-1, 1]" or "-1,1" as a range, "disk", "disk 0.9" and "annulus 0.5 1" as a disk, "polygon 5" as a polygon."""
    kind, *numbers = re.split(r"[\s,]+", text.strip())
    if kind == "polygon":
        if len(numbers) != 1 or not numbers[0].isdecimal():
            raise ValueError(f"eigenvalues {text!r} are not a polygon: write polygon and the number of corners, as polygon 5")
        return EigenPolygon(int(numbers[0]))
    if kind not in ("disk", "annulus"):
        if kind.isalpha():
            known = "-1,1 or [0, 1], disk, disk 0.9, annulus 0.5 1 or polygon 5"
            raise ValueError(f"eigenvalues {text!r} are not known: write {known}")
        return EigenRange.parse(text)
    try:
        radii = [float(number) for number in numbers]
        inner, outer = [0.0, *(radii or [1.0])] if kind == "disk" else radii
    except ValueError:
        raise ValueError(f"eigenvalues {text!r} are not a disk: write disk, disk 0.9 or annulus 0.5 1") from None
    return EigenDisk(inner, outer)


def eigenvalues_from_json(value: Any) -> Eigenvalues:
    """[low, high] is a range, {"disk": [inner, outer]} a disk, {"polygon": corners} a polygon."""
    if isinstance(value, dict) and set(value) == {"polygon"}:
        return EigenPolygon(value["polygon"])
    ends = value["disk"] if isinstance(value, dict) and set(value) == {"disk"} else value
    if not isinstance(ends, list) or len(ends) != 2:
        known = '[low, high], {"disk": [inner, outer]} or {"polygon": corners}'
        raise ValueError(f"eigenvalues are written {known}, got {value!r}")
    return EigenRange(*ends) if ends is value else EigenDisk(*ends)


def _bounded(what: str, value: Any, lowest: int, why: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{what}={value!r} must be a finite number in [{lowest}, 1]")
    if not lowest <= value <= 1:
        raise ValueError(f"{what}={value:g} lies outside [{lowest}, 1]: {why}")
    return float(value)


def _between(start: float, end: float, weight: Tensor) -> Tensor:
    if (start, end) == (0, 1):
        return weight
    # torch.lerp meets both ends exactly: it switches formula at weight ½; filled where they are used, since a CUDA graph can
    # hold no copy from the host
    return torch.lerp(weight.new_full((), start), weight.new_full((), end), weight)
