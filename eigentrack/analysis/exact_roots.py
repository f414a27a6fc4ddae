"""Exact heads whose letters swap points: reflections at keys that meet at 60° and 90°, as the roots r = e_i - e_j do.

A reflection at r swaps the points i and j. Measured from the point that all mirrors share, S' with rᵀS' = √2 uᵀS for every
key u and its root r moves by swaps alone.

m keys, each on its own line  n state size  V columns
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from eigentrack.analysis.exact_head import Array, ExactHead, column_sizes, factor, rounded
from eigentrack.compiler.plan import Move

Pair = tuple[int, int]

TURNED = 0.15  # how far from exact the cosine of two keys may lie: 45° are no 60°


def exact_roots(
    name: str, keys: dict[int, Array], betas: dict[int, float], writes: Array, start: Array, levels: int
) -> ExactHead | None:
    """`keys` [n] and `betas` of the letters that reflect, writes [A, n, V], start [n, V]. None where they are no roots."""
    letters, units = list(keys), np.array(list(keys.values()))
    cosines = units @ units.T
    pairs = swapped_points(np.round(2 * cosines).astype(int))
    if pairs is None:
        return None
    roots = np.zeros((len(pairs), 1 + max(map(max, pairs))))
    for number, (i, j) in enumerate(pairs):
        roots[number, i], roots[number, j] = 1, -1
    mirrors = np.array([keys[a] @ writes[a] for a in letters]) / 2
    centre = np.linalg.lstsq(units, mirrors, rcond=None)[0]
    begin = np.linalg.lstsq(roots, np.sqrt(2) * units @ (start - centre), rcond=None)[0]
    size = np.abs(begin).max()
    others = [np.abs(units @ written).max() for a, written in enumerate(writes) if a not in keys]
    strays = max([np.abs(units @ centre - mirrors).max(), *others])
    turned = np.abs(cosines - roots @ roots.T / 2).max()
    moved = max(turned, *(abs(betas[a] - 2) for a in letters), strays / size if size else np.inf)
    if turned > TURNED or not np.isfinite(moved):
        return None
    still, sizes = (0,) * start.shape[1], column_sizes(begin)
    of_letter = {a: Move((factor(tuple(map(int, root)), 1, still),)) for a, root in zip(letters, roots, strict=True)}
    moves = tuple(of_letter.get(a, Move()) for a in range(len(writes)))
    return ExactHead(name, tuple(rounded(point, sizes, levels) for point in begin), moves, float(moved))


def swapped_points(products: NDArray[np.int_]) -> list[Pair] | None:
    """Pairs (i, j) such that the roots e_i - e_j have these inner products; None if there are none. By trying all."""

    def extended(pairs: list[Pair], points: int) -> list[Pair] | None:
        if len(pairs) == len(products):
            return pairs
        wanted = products[len(pairs)]
        for pair in permutations(range(points + 2), 2):
            new = sorted(point for point in pair if point >= points)
            if new == list(range(points, points + len(new))) and all(
                _product(pair, other) == wanted[number] for number, other in enumerate(pairs)
            ):
                found = extended([*pairs, pair], points + len(new))
                if found is not None:
                    return found
        return None

    return extended([(0, 1)], 2)


def _product(x: Pair, y: Pair) -> int:
    return (x[0] == y[0]) + (x[1] == y[1]) - (x[0] == y[1]) - (x[1] == y[0])
