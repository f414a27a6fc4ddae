"""Intervals [low, high] for every entry of an array, rounded outwards, so that they contain the result of any computation.

Two kinds of rounding are enclosed. The first is that of this file's own float64: sums of n products by γ_n Σ|w||x|, functions
by a few units in the last place. The second is that of the network, whose floats have the unit roundoff u and may flush numbers
below `tiny` to 0: every result r may be off by a few u|r| + tiny, in any order of summation. u = 0 stands for exact real
numbers. If a value may exceed the largest float, it may be inf in the network, and later nan; no interval contains that, and
Unbounded is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

OWN_UNIT, OWN_LARGEST = 2.0**-53, float(np.finfo(np.float64).max)
FUNCTION_ERROR = 8  # the largest error of a library's exp, tanh …, in units of roundoff
NOWHERE = np.zeros((), dtype=bool), np.zeros((), dtype=bool)
SILU_AT, SILU_LEAST = -1.2784645427610738, -0.2784645427610739  # the x at which x σ(x) is least, and a lower bound of it

_unwarned = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the code raises on inf and nan; no warnings needed


class Unbounded(ValueError):
    """The error that intervals have grown so wide that a step has no bound."""


@dataclass(frozen=True)
class Interval:
    """An array of intervals, given by the arrays of their low and high ends."""

    low: Array
    high: Array

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape:
            raise ValueError(f"the ends of an interval have the shapes {self.low.shape} and {self.high.shape}")
        if not bool((self.low <= self.high).all()):  # this also refuses nan
            raise ValueError("an interval's low end must not lie above its high end")

    @staticmethod
    def at(values: ArrayLike) -> Interval:
        """Return intervals of width 0 at the values."""
        exact = np.asarray(values, dtype=np.float64)
        return Interval(exact, exact)

    @staticmethod
    def joined(parts: list[Interval], axis: int = 0) -> Interval:
        return Interval(np.concatenate([p.low for p in parts], axis), np.concatenate([p.high for p in parts], axis))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def radius(self) -> Array:
        return (self.high - self.low) / 2

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.low[index], self.high[index])

    def reshape(self, *shape: int) -> Interval:
        return Interval(self.low.reshape(shape), self.high.reshape(shape))

    def swapped(self, one: int, other: int) -> Interval:
        return Interval(self.low.swapaxes(one, other), self.high.swapaxes(one, other))

    @_unwarned
    def inflated(self, by: float) -> Interval:
        if by == 0:
            return self
        return Interval(np.nextafter(self.low - by, -np.inf), np.nextafter(self.high + by, np.inf))

    def hull(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def within(self, other: Interval) -> Mask:
        """Return for each row whether every interval lies in that of the other."""
        return np.all((other.low <= self.low) & (self.high <= other.high), axis=-1)

    def meets(self, other: Interval) -> Mask:
        """Return for each row whether the two boxes have a point in common."""
        return np.all((self.low <= other.high) & (other.low <= self.high), axis=-1)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)


@dataclass(frozen=True)
class Arithmetic:
    """Operations on intervals that enclose those of a network in floats of some type; the defaults enclose exact reals."""

    unit: float = 0.0  # the unit roundoff of the network's floats
    tiny: float = 0.0  # smaller numbers may be flushed to 0
    largest: float = OWN_LARGEST  # larger numbers may become inf

    def affine(self, x: Interval, weight: Array, bias: Array | None = None) -> Interval:
        """Return weight x + bias: x [..., n], weight [m, n], bias [m] → [..., m]."""
        return self._linear(lambda vector, matrix: vector @ matrix.T, x, weight, 0.0 if bias is None else bias)

    def affine_by_head(self, x: Interval, weight: Array) -> Interval:
        """Return weight x, head by head: x [N, H, n], weight [H, g, m, n] → [N, H, g, m]."""
        return self._linear(lambda vector, matrix: (matrix @ vector[:, :, None, :, None])[..., 0], x, weight, 0.0)

    @_unwarned
    def _linear(self, product: Callable[[Array, Array], Array], x: Interval, weight: Array, bias: Array | float) -> Interval:
        size = product(np.maximum(np.abs(x.low), np.abs(x.high)), np.abs(weight)) + np.abs(bias)
        terms = weight.shape[-1] + 3
        rounding = terms * (2 * OWN_UNIT + self.unit)
        if rounding >= 1:
            raise Unbounded(f"a sum of {terms} terms has no bound in floats of unit roundoff {self.unit:g}")
        error = rounding / (1 - rounding) * size + terms * self.tiny
        self._refuse_beyond_largest(size + error)  # no partial sum is larger, in any order
        positive, negative = np.maximum(weight, 0), np.minimum(weight, 0)
        low = product(x.low, positive) + product(x.high, negative) + bias
        high = product(x.high, positive) + product(x.low, negative) + bias
        return Interval(np.nextafter(low - error, -np.inf), np.nextafter(high + error, np.inf))

    @_unwarned
    def plus(self, x: Interval, y: Interval) -> Interval:
        """Return x + y; an end of -inf, which the scale m of an empty sLSTM memory has, stays -inf."""
        empty = np.isneginf(x.low) | np.isneginf(y.low), np.isneginf(x.high) | np.isneginf(y.high)
        return self._rounded(x.low + y.low, x.high + y.high, 1, empty)

    @_unwarned
    def times(self, x: Interval, y: Interval) -> Interval:
        corners = x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high
        return self._rounded(np.minimum.reduce(corners), np.maximum.reduce(corners), 1)

    @_unwarned
    def divided(self, x: Interval, y: Interval) -> Interval:
        if not bool((y.low > 0).all()):
            raise Unbounded("a divisor's interval reaches down to 0")
        corners = x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high
        return self._rounded(np.minimum.reduce(corners), np.maximum.reduce(corners), 1)

    def maximum(self, x: Interval, y: Interval) -> Interval:
        return Interval(np.maximum(x.low, y.low), np.maximum(x.high, y.high))

    def exp(self, x: Interval) -> Interval:
        return self._rising(np.exp, x, 0.0, np.inf)

    def tanh(self, x: Interval) -> Interval:
        return self._rising(np.tanh, x, -1.0, 1.0)

    def sigmoid(self, x: Interval) -> Interval:
        return self._rising(_sigmoid, x, 0.0, 1.0)

    def log_sigmoid(self, x: Interval) -> Interval:
        return self._rising(lambda v: np.minimum(v, 0) - np.log1p(np.exp(-np.abs(v))), x, -np.inf, 0.0)

    def softplus(self, x: Interval) -> Interval:
        return -self.log_sigmoid(-x)

    @_unwarned
    def silu(self, x: Interval) -> Interval:
        ends = x.low * _sigmoid(x.low), x.high * _sigmoid(x.high)
        low, high = np.minimum(*ends), np.maximum(*ends)
        low = np.where((x.low <= SILU_AT + 1e-6) & (x.high >= SILU_AT - 1e-6), SILU_LEAST, low)
        return self._rounded(low, high, FUNCTION_ERROR)

    @_unwarned
    def rms_norm(self, x: Interval, weight: Array, eps: float) -> Interval:
        """Return x_i / √(mean x² + eps) · weight_i.

        Without the weight, it rises with x_i, and its modulus falls as the moduli of the other entries grow.
        """
        n = x.shape[-1]
        squares = np.square(x.low), np.square(x.high)
        least = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(*squares))
        most = np.maximum(*squares)
        self._refuse_beyond_largest(most.sum(-1) * (1 + n * (2 * OWN_UNIT + self.unit)))
        self._refuse_beyond_largest(1 / np.sqrt(least.sum(-1) / n + eps))
        other_least = np.maximum(0.0, (least.sum(-1, keepdims=True) - least) * (1 - 4 * n * OWN_UNIT))
        other_most = (most.sum(-1, keepdims=True) - most) * (1 + 4 * n * OWN_UNIT)

        def end(value: Array, far: Array, near: Array) -> Array:
            return value / np.sqrt((np.square(value) + np.where(value >= 0, far, near)) / n + eps)

        low, high = end(x.low, other_most, other_least), end(x.high, other_least, other_most)
        return self.times(self._rounded(low, high, FUNCTION_ERROR + n), Interval.at(weight))

    def scaled_to_one(self, x: Interval) -> Interval:
        """Return x_i / √(Σ x²), for rows whose length is far above 0."""
        n = x.shape[-1]
        if not bool((np.maximum(x.low, -x.high).clip(0.0).max(-1) > 1e-3).all()):
            raise Unbounded("a key that is scaled to length 1 may be almost 0")
        scaled = self.rms_norm(x, np.full(n, n**-0.5), 0.0)
        return self._rounded(scaled.low, scaled.high, 2)

    @_unwarned
    def _rising(self, function: Callable[[Array], Array], x: Interval, least: float, most: float) -> Interval:
        """Return the values of an increasing function, which lie between `least` and `most` in floats as well."""
        found = self._rounded(function(x.low), function(x.high), FUNCTION_ERROR)
        return Interval(np.clip(found.low, least, most), np.clip(found.high, least, most))

    def _rounded(self, low: Array, high: Array, errors: int, empty: tuple[Mask, Mask] = NOWHERE) -> Interval:
        """Return the interval rounded outwards by `errors` roundings; `empty` marks the ends that may be -inf."""
        share = errors * (2 * OWN_UNIT + self.unit)
        ends = _shifted(low, -share, -self.tiny, -np.inf), _shifted(high, share, self.tiny, np.inf)
        for end, rightly in zip(ends, empty, strict=True):
            self._refuse_beyond_largest(np.where(rightly, 0.0, end))
        return Interval(*ends)

    def _refuse_beyond_largest(self, values: Array) -> None:
        if not bool((np.abs(values) <= self.largest).all()):  # this also refuses nan
            raise Unbounded(f"a value may exceed {self.largest:.3g}, the largest float")


def _shifted(end: Array, share: float, by: float, towards: float) -> Array:
    finite = np.isfinite(end)
    return np.where(finite, np.nextafter(end + share * np.abs(np.where(finite, end, 0.0)) + by, towards), end)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
