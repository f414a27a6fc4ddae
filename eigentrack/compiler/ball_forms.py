"""Ball forms: x = c + Σ_i G_i δ_i + r, with unknown |δ_i| ≤ ρ_i and |r| ≤ e, enclose what a read-out makes of a ball.

Intervals forget that all errors come from a few vectors δ, and grow with every layer. A ball form follows the first order
exactly, by the slopes G, and puts only second-order terms and rounding into the remainder r, of which it knows the length. A
remainder can become one more vector δ. Rounding is enclosed as in interval.py: that of this file's float64, and that of the
network's floats, in any order of summation.

P forms  n entries  s entries of δ_i
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigentrack.compiler.interval import FUNCTION_ERROR, OWN_UNIT, Arithmetic, Array, Interval, Unbounded

SILU_BEND = 0.5  # the largest |silu''|
LARGEST = 1e12  # larger values are not followed: their squares and sums might exceed the largest float
SLACK = 1 + 1e-9  # covers the rounding of float64 in norms of a few thousand numbers


@dataclass(frozen=True)
class Slope:
    """The part G δ of a form."""

    matrix: Array  # G, [P, n, s]
    radius: Array  # ρ, the largest length of δ, [P]


@dataclass(frozen=True)
class BallForm:
    """P vectors of n entries, each c + Σ_i G_i δ_i + r."""

    centre: Array  # c, [P, n]
    slopes: tuple[Slope, ...]
    remainder: Array  # e, the largest length of r, [P]

    @cached_property
    def spread(self) -> Array:
        """The largest distance of every entry from its centre, [P, n]."""
        rows = sum(np.linalg.norm(slope.matrix, axis=-1) * slope.radius[:, None] for slope in self.slopes)
        return (rows + self.remainder[:, None]) * SLACK

    @cached_property
    def far(self) -> Array:
        """The largest distance of the vector from its centre, [P]; |G|² is at most any norm of G Gᵀ."""
        total = self.remainder
        for slope in self.slopes:
            gram = np.abs(slope.matrix @ slope.matrix.swapaxes(1, 2))
            square = np.minimum(np.trace(gram, axis1=1, axis2=2), gram.sum(2).max(1))
            total = total + np.sqrt(square) * slope.radius
        return total * SLACK

    @property
    def size(self) -> Array:
        """The largest modulus of every entry, [P, n]."""
        return np.abs(self.centre) + self.spread

    def mapped(self, centre: Array, matrix: Callable[[Array], Array], remainder: Array) -> BallForm:
        """Return a form with another centre and remainder, whose slopes are those of this one under a linear map."""
        return BallForm(centre, tuple(Slope(matrix(slope.matrix), slope.radius) for slope in self.slopes), remainder * SLACK)

    def unfolded(self) -> BallForm:
        """Return the same form with its remainder as one more vector δ."""
        identity = np.broadcast_to(np.eye(self.centre.shape[1]), (*self.centre.shape, self.centre.shape[1]))
        return BallForm(self.centre, (*self.slopes, Slope(identity, self.remainder)), np.zeros_like(self.remainder))

    def parted(self, parts: int) -> BallForm:
        """Return forms of n / parts entries each, [P parts, ...]."""
        count, width = self.centre.shape
        shape = count * parts, width // parts
        slopes = (Slope(slope.matrix.reshape(*shape, -1), np.repeat(slope.radius, parts)) for slope in self.slopes)
        return BallForm(self.centre.reshape(shape), tuple(slopes), np.repeat(self.remainder, parts))

    def joined(self, parts: int) -> BallForm:
        """Return the forms of which `parted` makes these."""
        count, width = self.centre.shape[0] // parts, self.centre.shape[1] * parts
        remainder = np.linalg.norm(self.remainder.reshape(count, parts), axis=1) * SLACK
        slopes = (Slope(slope.matrix.reshape(count, width, -1), slope.radius[::parts]) for slope in self.slopes)
        return BallForm(self.centre.reshape(count, width), tuple(slopes), remainder)


class BallArithmetic:
    """Operations on ball forms that enclose those of a network whose floats have the given arithmetic."""

    def __init__(self, floats: Arithmetic) -> None:
        self._unit, self._tiny = floats.unit + 2 * OWN_UNIT, floats.tiny

    def linear(self, x: BallForm, weight: Array) -> BallForm:
        """Return weight x: weight [m, n]."""
        terms = weight.shape[1] + 3
        enlarged = float(np.linalg.norm(weight, 2)) * SLACK
        form = x.mapped(x.centre @ weight.T, lambda matrix: weight @ matrix, x.remainder * enlarged)
        return self._with_rounding(form, self.gamma(terms) * (x.size @ np.abs(weight).T) + terms * self._tiny)

    def plus(self, x: BallForm, y: BallForm) -> BallForm:
        form = BallForm(x.centre + y.centre, _summed(x.slopes, y.slopes), x.remainder + y.remainder)
        return self._rounded(form, x.size + y.size)

    def plus_known(self, x: BallForm, known: Interval) -> BallForm:
        """Return x plus values that do not depend on δ, [P, n]."""
        middle, half = middle_and_half(known)
        form = BallForm(x.centre + middle, x.slopes, x.remainder + np.linalg.norm(half, axis=1) * SLACK)
        return self._rounded(form, x.size + np.abs(middle) + half)

    def times_known(self, x: BallForm, known: Interval) -> BallForm:
        """Return x times values that do not depend on δ, [P, n]."""
        middle, half = middle_and_half(known)
        remainder = x.remainder * np.abs(middle).max(1) + np.linalg.norm(x.size * half, axis=1)
        form = x.mapped(x.centre * middle, lambda matrix: matrix * middle[..., None], remainder)
        return self._rounded(form, x.size * (np.abs(middle) + half))

    def times(self, x: BallForm, y: BallForm) -> BallForm:
        """Return x ⊙ y entry by entry."""
        remainder = np.abs(x.centre).max(1) * y.remainder + np.abs(y.centre).max(1) * x.remainder
        remainder += np.minimum(x.spread.max(1) * y.far, x.far * y.spread.max(1))
        return self._rounded(BallForm(x.centre * y.centre, _product_rule(x, y), remainder * SLACK), x.size * y.size)

    def times_number(self, x: BallForm, y: BallForm) -> BallForm:
        """Return x times the only entry of y."""
        remainder = np.linalg.norm(x.centre, axis=1) * y.remainder + np.abs(y.centre[:, 0]) * x.remainder
        remainder += x.far * y.spread[:, 0]
        return self._rounded(BallForm(x.centre * y.centre, _product_rule(x, y), remainder * SLACK), x.size * y.size)

    def silu(self, x: BallForm) -> BallForm:
        sigma = 1 / (1 + np.exp(-np.clip(x.centre, -700, 700)))
        first = sigma * (1 + x.centre * (1 - sigma))
        remainder = np.abs(first).max(1) * x.remainder + SILU_BEND / 2 * x.spread.max(1) * x.far
        form = x.mapped(x.centre * sigma, lambda matrix: first[..., None] * matrix, remainder)
        return self._rounded(form, x.size, FUNCTION_ERROR)

    def rms_norm(self, x: BallForm, weight: Array, eps: float) -> BallForm:
        """Return x_i / √(mean x² + eps) · weight_i."""
        n = x.centre.shape[1]
        mean = np.square(x.centre).mean(1, keepdims=True) + eps
        remainder = (2 * np.linalg.norm(x.centre, axis=1) * x.remainder + np.square(x.far)) / n
        rounding = self.gamma(n + 4) * (np.square(x.size).mean(1) + eps)
        squares = x.mapped(mean, lambda matrix: 2 / n * (x.centre[:, None] @ matrix), remainder + rounding)
        root = self._inverse_root(squares, eps * (1 - self.gamma(4)))
        return self.times_known(self.times_number(x, root), Interval.at(np.broadcast_to(weight, x.centre.shape)))

    def margins(self, logits: BallForm, answers: NDArray[np.int_]) -> Array:
        """Return a lower bound of the difference between the logit of the answer and every other one, [P]."""
        rows = np.arange(len(answers))
        spread = np.sqrt(2.0) * logits.remainder[:, None]
        for slope in logits.slopes:
            difference = slope.matrix[rows, answers][:, None] - slope.matrix
            spread = spread + np.linalg.norm(difference, axis=-1) * slope.radius[:, None]
        least = logits.centre[rows, answers][:, None] - logits.centre - spread * SLACK
        least[rows, answers] = np.inf
        return least.min(1)

    def gamma(self, terms: int) -> float:
        """Return γ = m u / (1 - m u), which bounds the rounding of a sum of m products relative to the sum of their moduli."""
        rounding = terms * self._unit
        if rounding >= 0.5:
            raise Unbounded(f"a sum of {terms} terms has no bound in floats of unit roundoff {self._unit:g}")
        return rounding / (1 - rounding)

    def _inverse_root(self, x: BallForm, least: float) -> BallForm:
        """Return 1 / √x for values that are at least `least`."""
        low = np.maximum(x.centre - x.spread, least)
        if not bool((low > 0).all()):
            raise Unbounded("the mean square under a norm may be 0")
        first = -0.5 * x.centre**-1.5
        remainder = np.abs(first[:, 0]) * x.remainder + (0.375 * low**-2.5 * np.square(x.spread))[:, 0]
        root = x.mapped(x.centre**-0.5, lambda matrix: first[..., None] * matrix, remainder)
        return self._rounded(root, low**-0.5, FUNCTION_ERROR)

    def _rounded(self, x: BallForm, size: Array, units: int = 1) -> BallForm:
        return self._with_rounding(x, self.gamma(units + 3) * size + self._tiny)

    def _with_rounding(self, x: BallForm, rounding: Array) -> BallForm:
        """Return x with errors of at most `rounding` [P, n] in its entries added to its remainder."""
        if not bool((np.abs(x.centre) <= LARGEST).all() and (x.remainder <= LARGEST).all() and (rounding <= LARGEST).all()):
            raise Unbounded(f"values on the ball may exceed {LARGEST:g}")
        return BallForm(x.centre, x.slopes, (x.remainder + np.linalg.norm(rounding, axis=1)) * SLACK)


def _product_rule(x: BallForm, y: BallForm) -> tuple[Slope, ...]:
    one = (Slope(x.centre[..., None] * slope.matrix, slope.radius) for slope in y.slopes)
    other = (Slope(y.centre[..., None] * slope.matrix, slope.radius) for slope in x.slopes)
    return _summed(tuple(one), tuple(other))


def _summed(one: tuple[Slope, ...], other: tuple[Slope, ...]) -> tuple[Slope, ...]:
    """Return the sum of slopes by the same vectors δ; a form that knows fewer of them does not depend on the rest."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    both = tuple(Slope(a.matrix + b.matrix, a.radius) for a, b in zip(longer, shorter, strict=False))
    return both + longer[len(shorter) :]


def middle_and_half(known: Interval) -> tuple[Array, Array]:
    """Return the middles and the half widths of intervals, which enclose them despite rounding."""
    middle = (known.low + known.high) / 2
    half = np.maximum(known.high - middle, middle - known.low)
    return middle, half * (1 + 4 * OWN_UNIT) + np.abs(middle) * 4 * OWN_UNIT
