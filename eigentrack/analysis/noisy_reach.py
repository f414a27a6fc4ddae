"""Noisy reach: which states can words of at most t letters lead to, if every step may err by ε? Until two labels' states touch.

    R_0(q) = start,    R_{t+1}(q') = R_t(q') ∪ hull of f_a(R_t(q)) + [-ε, ε]^n over all q, a with δ(q, a) = q'

As long as the boxes R_t(q) of different labels have no common point, no error of at most ε can confuse them within t letters.
For one-dimensional linear maps the ends of the boxes are reached: once they touch, some words and errors do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eigentrack.analysis.dynamics import Dynamics
from eigentrack.compiler.interval import Interval


@dataclass(frozen=True)
class Merging:
    """After `letters` letters the boxes of two labels touch; `gaps` is the least distance of two labels' boxes before each."""

    letters: int
    labels: tuple[int, int]
    gaps: tuple[float, ...]


def letters_until_merged(dynamics: Dynamics, epsilon: float, limit: int) -> Merging | None:
    """None if no two labels touch within `limit` letters."""
    reach: dict[int, Interval] = {dynamics.start_label: dynamics.start}
    gaps: list[float] = []
    for letters in range(1, limit + 1):
        grown = dict(reach)
        for state, box in reach.items():
            for letter, letter_map in enumerate(dynamics.maps):
                target, image = dynamics.transitions[state][letter], letter_map(box).inflated(epsilon)
                grown[target] = grown[target].hull(image) if target in grown else image
        reach = grown
        pairs = list(combinations(sorted(reach), 2))
        for p, q in pairs:
            if reach[p].meets(reach[q])[0]:
                return Merging(letters, (p, q), tuple(gaps))
        gaps.append(min((distance(reach[p], reach[q]) for p, q in pairs), default=float("inf")))
    return None


def distance(x: Interval, y: Interval) -> float:
    """Of two boxes [1, n], in the largest number."""
    return float(np.maximum(0.0, np.maximum(x.low - y.high, y.low - x.high)).max())
