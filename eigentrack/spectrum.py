"""Sets that bound the eigenvalues of a state-transition matrix A(x).

EigenRange is an interval, EigenDisk a disk or an annulus, EigenPolygon a regular polygon with its corners on the unit circle.

A diagonal gate s in [0, 1] becomes the eigenvalue  low + (high - low) s.
A generalized Householder factor I - b k kᵀ with a unit key has the eigenvalue 1 - b along k and 1 elsewhere;
the range bounds that one eigenvalue, so b lies in [1 - high, 1 - low].
A gate s and an angle, measured in turns, become the eigenvalue  (inner + (outer - inner) s) exp(2πi turn)  of a disk.
Weights p_0 … p_{m-1} that sum to one become the eigenvalue  Σ_j p_j exp(2πi j/m)  of a polygon.

All sets are subclasses of `Eigenvalues` and can be written and read as text (`str` and `parse_eigenvalues`) and in JSON
(`to_json` and `eigenvalues_from_json`). To add a set, write a subclass and register it in `SETS`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

FEWEST_CORNERS, MOST_CORNERS = 3, 1024
LARGEST_OVERSHOOT = 10  # with this overshoot, b is cut at logits of ±0.1
TINY = 1e-12  # keeps an eigenvalue of a polygon away from 0, where it has no angle
WRITTEN = '[low, high], {"disk": [inner, outer]} or {"polygon": corners}'


class Eigenvalues(ABC):
    """A set that contains the eigenvalues of a layer; an immutable value."""

    turns: ClassVar[bool]  # whether an eigenvalue has an angle beside its real factor

    @property
    @abstractmethod
    def radial(self) -> EigenRange:
        """The range of the real factor of an eigenvalue."""

    @abstractmethod
    def to_json(self) -> Any:
        """Return the set as a JSON value: an object whose first key is its name in SETS, or a list for a plain range."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: dict[str, Any]) -> Eigenvalues:
        """Return the set for `values`, an object that `to_json` has written."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Eigenvalues:
        """Return the set for `text`, as `str` writes it: its name in SETS, then its numbers."""


@dataclass(frozen=True)
class EigenRange(Eigenvalues):
    """Eigenvalues from `low` to `high`: `EigenRange(0, 1)` forgets, `EigenRange(-1, 1)` can also flip, hence track state.

    With an `overshoot`, b = 1 - eigenvalue follows a sigmoid that is stretched by this share of its height beyond both ends of
    its range and clipped there, so that finite logits reach the ends: ±log((1 + s) / s) for a share of s, which is ±3.04 for
    0.05, while the plain sigmoid needs 17 in float32. b = 0 keeps the state bit by bit; b = 2 flips it up to the error in the
    length of the key, about 1e-7 in float32. A clipped b has no gradient: only tokens whose b is not clipped can move it back.
    """

    low: float  # at least -1
    high: float  # at most 1
    overshoot: float = 0.0  # a share of the height of the sigmoid, 0 for none
    turns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            why = "a transition of norm > 1 makes the state diverge"
            object.__setattr__(self, name, _bounded(f"EigenRange {name}", getattr(self, name), -1, why))
        if not self.low < self.high:
            raise ValueError(f"EigenRange low={self.low:g} must be below high={self.high:g}")
        if not _is_number(self.overshoot) or not 0 <= self.overshoot <= LARGEST_OVERSHOOT:
            limits = f"a number from 0 to {LARGEST_OVERSHOOT}, such as 0.05"
            raise ValueError(f"EigenRange overshoot={self.overshoot!r} must be {limits}")

    @property
    def ends(self) -> tuple[float, float]:
        """The pair of `low` and `high`."""
        return self.low, self.high

    def __str__(self) -> str:
        ends = f"[{self.low:g}, {self.high:g}]"
        return f"{ends} overshoot {self.overshoot:g}" if self.overshoot else ends

    @property
    def radial(self) -> EigenRange:
        """The range itself, as real eigenvalues have no angle."""
        return self

    def to_json(self) -> list[float] | dict[str, Any]:
        ends = list(self.ends)
        return {"range": ends, "overshoot": self.overshoot} if self.overshoot else ends

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> EigenRange:
        ends, rest = _entries(values, "range", "overshoot")
        return cls(*_pair(ends, values), **rest)

    def eigenvalue(self, gate: Tensor) -> Tensor:
        """Return the eigenvalue of a gate in [0, 1]: gate 0 gives exactly `low`, gate 1 exactly `high`."""
        return _between(self.low, self.high, gate)

    def gate(self, eigenvalue: float) -> float:
        """Return the gate that gives this eigenvalue."""
        self._require_inside(eigenvalue)
        return (eigenvalue - self.low) / (self.high - self.low)

    def beta(self, logit: Tensor) -> Tensor:
        """Return b = 1 - eigenvalue along a unit key: σ(logit) for [0, 1], 2σ(logit) for [-1, 1], without overshoot."""
        share = torch.sigmoid(logit)
        if self.overshoot:
            share = ((1 + 2 * self.overshoot) * share - self.overshoot).clamp(0, 1)
        return _between(1 - self.high, 1 - self.low, share)

    def beta_logit(self, eigenvalue: float) -> float:
        """Return the logit whose b gives this eigenvalue along the key."""
        self._require_inside(eigenvalue)
        beyond = self.overshoot * (self.high - self.low)
        return math.log((self.high + beyond - eigenvalue) / (eigenvalue - self.low + beyond))

    def _require_inside(self, eigenvalue: float) -> None:
        if not self.low < eigenvalue < self.high:
            raise ValueError(f"eigenvalue {eigenvalue:g} must lie inside of {self}, without its ends")

    @classmethod
    def parse(cls, text: str) -> EigenRange:
        """Return the range for a text such as "[-1, 1]", "-1,1" or "-1 1", or with an overshoot "[-1, 1] overshoot 0.05"."""
        ends, word, overshoot = text.removeprefix("range").partition("overshoot")
        try:
            low, high = (float(part) for part in re.split(r"[\s,]+", ends.strip().strip("[]").strip()))
            share = float(overshoot) if word else 0.0
        except ValueError:
            raise ValueError(f"eigenvalue range {text!r} is not two numbers: write it as -1,1 or [0, 1]") from None
        return cls(low, high, share)


@dataclass(frozen=True)
class EigenDisk(Eigenvalues):
    """Eigenvalues of modulus `inner` to `outer` and any angle: `EigenDisk()` can rotate, hence count modulo any number."""

    inner: float = 0.0
    outer: float = 1.0
    turns: ClassVar[bool] = True
    _radial: EigenRange = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("inner", "outer"):
            why = "a modulus is not negative, and above 1 it makes the state diverge"
            object.__setattr__(self, name, _bounded(f"EigenDisk {name}", getattr(self, name), 0, why))
        if not self.inner < self.outer:
            raise ValueError(f"EigenDisk inner={self.inner:g} must be below outer={self.outer:g}")
        # made once, as torch.compile, which may hold numbers as symbols, cannot check the ends of a range
        object.__setattr__(self, "_radial", EigenRange(self.inner, self.outer))

    def __str__(self) -> str:
        if self.inner:
            return f"annulus {self.inner:g} {self.outer:g}"
        return "disk" if self.outer == 1 else f"disk {self.outer:g}"

    @property
    def radial(self) -> EigenRange:
        """The range of an eigenvalue's modulus."""
        return self._radial

    def to_json(self) -> dict[str, Any]:
        return {"disk": [self.inner, self.outer]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> EigenDisk:
        radii, _ = _entries(values, "disk")
        return cls(*_pair(radii, values))

    @classmethod
    def parse(cls, text: str) -> EigenDisk:
        """Return the disk for a text such as "disk", "disk 0.9" or "annulus 0.5 1"."""
        kind, *numbers = re.split(r"[\s,]+", text)
        try:
            radii = [float(number) for number in numbers]
            inner, outer = [0.0, *(radii or [1.0])] if kind == "disk" else radii
        except ValueError:
            raise ValueError(f"eigenvalues {text!r} are not a disk: write disk, disk 0.9 or annulus 0.5 1") from None
        return cls(inner, outer)


@dataclass(frozen=True)
class EigenPolygon(Eigenvalues):
    """Eigenvalues in the regular polygon whose corners are the m-th roots of unity; for m = 2 this would be [-1, 1].

    An eigenvalue is the mean of the corners by weights that sum to one. If one weight is close to 1, the eigenvalue is a corner
    up to rounding: a layer learns to count modulo m (or a divisor of m) as it learns to classify, without tuning its angles.
    Otherwise the eigenvalue lies inside of the polygon and the layer forgets; equal weights give 0.
    """

    corners: int  # m
    # the number of training steps after which an eigenvalue is the corner of the largest weight, not the mean; None: never
    sharp_after: int | None = None
    turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count, steps = self.corners, self.sharp_after
        if isinstance(count, bool) or not isinstance(count, int) or not FEWEST_CORNERS <= count <= MOST_CORNERS:
            limits = f"from {FEWEST_CORNERS} to {MOST_CORNERS}"
            raise ValueError(
                f"EigenPolygon corners={count!r} must be a whole number {limits}; for two there is EigenRange(-1, 1)"
            )
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
            raise ValueError(f"EigenPolygon sharp_after={steps!r} must be a number of steps, 0 or more, or None for never")

    def __str__(self) -> str:
        return f"polygon {self.corners}" + ("" if self.sharp_after is None else f" sharp_after {self.sharp_after}")

    @property
    def radial(self) -> EigenRange:
        """The range of an eigenvalue's modulus."""
        return EigenRange(0, 1)

    def to_json(self) -> dict[str, Any]:
        return {"polygon": self.corners} | ({} if self.sharp_after is None else {"sharp_after": self.sharp_after})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> EigenPolygon:
        corners, rest = _entries(values, "polygon", "sharp_after")
        return cls(corners, **rest)

    @classmethod
    def parse(cls, text: str) -> EigenPolygon:
        """Return the polygon for a text such as "polygon 5" or "polygon 5 sharp_after 1000"."""
        found = re.fullmatch(r"polygon[\s,]+(\d+)([\s,]+sharp_after[\s,]+(\d+))?", text)
        if found is None:
            raise ValueError(f"eigenvalues {text!r} are not a polygon: write polygon and the number of corners, as polygon 5")
        return cls(int(found[1]), None if found[3] is None else int(found[3]))

    def eigenvalue(self, weights: Float[Tensor, "*batch m"]) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
        """Return the modulus and the angle, in turns, of the mean of the corners by these weights.

        The real part is shifted by 1e-12, as 0 has no angle and its gradient would be infinite.
        """
        angles = 2 * math.pi / self.corners * torch.arange(self.corners, dtype=torch.float64, device=weights.device)
        cosine, sine = angles.cos().to(weights.dtype), angles.sin().to(weights.dtype)
        # a sum instead of a matrix product, which TF32 might round: angles must be exact
        real, imaginary = (weights * cosine).sum(-1) + TINY, (weights * sine).sum(-1)
        return torch.hypot(real, imaginary).clamp(max=1), torch.atan2(imaginary, real) / (2 * math.pi)


# the class of a set by the word that its text and its JSON begin with
SETS: dict[str, type[Eigenvalues]] = {
    "range": EigenRange,
    "disk": EigenDisk,
    "annulus": EigenDisk,
    "polygon": EigenPolygon,
}


def parse_eigenvalues(text: str) -> Eigenvalues:
    """Return the set that `text` describes.

    "[-1, 1]" and "-1,1" are ranges, "disk", "disk 0.9" and "annulus 0.5 1" are disks, "polygon 5" is a polygon.
    """
    text = text.strip()
    kind = re.split(r"[\s,]+", text)[0]
    if kind in SETS:
        return SETS[kind].parse(text)
    if kind.isalpha():
        known = "-1,1 or [0, 1], disk, disk 0.9, annulus 0.5 1 or polygon 5"
        raise ValueError(f"eigenvalues {text!r} are not known: write {known}")
    return EigenRange.parse(text)


def eigenvalues_from_json(value: Any) -> Eigenvalues:
    """Return the set that the JSON `value` describes.

    [low, high] is a range, {"disk": [inner, outer]} a disk, {"polygon": corners} a polygon. A range with an overshoot is
    {"range": [low, high], "overshoot": share}; a polygon may have "sharp_after": steps.
    """
    if isinstance(value, dict):
        for name, kind in SETS.items():
            if name in value:
                return kind.from_json(value)
    return EigenRange(*_pair(value, value))


def _entries(values: dict[str, Any], name: str, *more: str) -> tuple[Any, dict[str, Any]]:
    """Return the entry `name` and the entries in `more` that are present; raise if `name` is missing or others are present."""
    if name not in values or not set(values) <= {name, *more}:
        raise _unreadable(values)
    return values[name], {key: values[key] for key in more if key in values}


def _pair(ends: Any, written: Any) -> list[Any]:
    if not isinstance(ends, list) or len(ends) != 2:
        raise _unreadable(written)
    return ends


def _unreadable(value: Any) -> ValueError:
    return ValueError(f"eigenvalues are written {WRITTEN}, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bounded(what: str, value: Any, lowest: int, why: str) -> float:
    if not _is_number(value) or not math.isfinite(value):
        raise ValueError(f"{what}={value!r} must be a finite number in [{lowest}, 1]")
    if not lowest <= value <= 1:
        raise ValueError(f"{what}={value:g} lies outside [{lowest}, 1]: {why}")
    return float(value)


def _between(start: float, end: float, weight: Tensor) -> Tensor:
    if (start, end) == (0, 1):
        return weight
    # torch.lerp is exact at both ends, as it switches its formula at weight ½; new_full creates the ends on the device, as a
    # CUDA graph cannot capture a copy from the host
    return torch.lerp(weight.new_full((), start), weight.new_full((), end), weight)
