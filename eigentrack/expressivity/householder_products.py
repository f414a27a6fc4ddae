"""Products of generalized Householder factors C_n ··· C_1 with C = I - b k kᵀ; the first factor acts first, as in the layer.

k key  b beta  n dimension of the state.  A factor has the eigenvalue 1 - b|k|² along k and 1 elsewhere.

Proposition 1 of Grazzi et al. (2025), made concrete:
1. if all eigenvalues along keys are in [-1, 1], the product has norm at most 1;
2. every matrix of norm at most 1 is such a product: permutations take n - cycles factors, orthogonal Q take rank(Q - I),
   all others at most 2n (the paper says 3n; the polar form M = Q·P saves the third n);
3. if all are in (-1, 1], every eigenvalue of the product is 1 or of modulus below 1; if all are in [0, 1] and there are at most
   two factors, it is real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

ACCURACY = 1e-12  # the largest error of a returned factorisation in an entry of the matrix
RANK_TOLERANCE = 1e-13  # a direction that Q moves by less than this counts as fixed


@dataclass(frozen=True)
class Factor:
    """A generalized Householder factor I - beta k kᵀ.

    The key may have any norm: (1, -1) with beta = 1 swaps two coordinates without rounding.
    """

    key: tuple[float, ...]  # k, with as many entries as the state has dimensions
    beta: float

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key=() has no entries: a factor acts on at least one coordinate")
        if not -1 - ACCURACY <= self.eigenvalue <= 1:
            raise ValueError(f"beta={self.beta:g} gives the eigenvalue {self.eigenvalue:g} along the key, outside [-1, 1]")

    @property
    def eigenvalue(self) -> float:
        return 1 - self.beta * sum(x * x for x in self.key)

    @property
    def matrix(self) -> Matrix:
        key = np.array(self.key)
        return np.eye(len(key)) - self.beta * np.outer(key, key)


def product(factors: Sequence[Factor], dimension: int) -> Matrix:
    """Return the product C_n ··· C_1 of the factors, [dimension, dimension]; without factors, the identity."""
    result = np.eye(dimension)
    for factor in factors:
        key = np.array(factor.key)
        result -= factor.beta * np.outer(key, key @ result)
    return result


def factor_permutation(images: Sequence[int]) -> tuple[Factor, ...]:
    """Return factors of the matrix that moves e_i to e_images[i]: n - cycles swaps, exact in every float type.

    `images` is a permutation of 0..n-1.
    """
    if sorted(images) != list(range(len(images))):
        raise ValueError(f"images={list(images)} is no permutation of 0..{len(images) - 1}")
    return factor_partial_permutation(images)


def factor_partial_permutation(images: Sequence[int | None]) -> tuple[Factor, ...]:
    """Return factors of the matrix A that moves e_i to e_images[i], or to 0 if images[i] is None.

    There are rank(A - I) factors, exact in every float type. A cycle of c points takes c - 1 swaps of its first point with the
    others. A path x₁ → … → x_m → 0 takes m factors: the first clears x_m, then m - 1 swaps move the path as if it were a cycle.
    """
    points = range(len(images))
    targets = [image for image in images if image is not None]
    if len(set(targets)) < len(targets) or not set(targets) <= set(points):
        raise ValueError(f"images={list(images)} must be distinct points of 0..{len(images) - 1}, or None")
    unseen, factors = set(points), []
    heads = [point for point in points if point not in set(targets)]
    for start in (*heads, *points):
        if start not in unseen:
            continue
        orbit = [start]
        while (following := images[orbit[-1]]) is not None and following != start:
            orbit.append(following)
        unseen -= set(orbit)
        if following is None:
            factors.append(Factor(_key(len(images), {orbit[-1]: 1.0}), 1.0))
        factors += [Factor(_key(len(images), {start: 1.0, point: -1.0}), 1.0) for point in orbit[1:]]
    return tuple(factors)


def factor_rotation(angle: float) -> tuple[Factor, ...]:
    """Return the rotation [[cos, -sin], [sin, cos]] as two reflections, whose axes are half the angle apart."""
    return (_reflection(np.array([0.0, 1.0])), _reflection(np.array([-math.sin(angle / 2), math.cos(angle / 2)])))


def factor_orthogonal(matrix: Matrix) -> tuple[Factor, ...]:
    """Return rank(Q - I) reflections whose product is the orthogonal matrix Q; no fewer reflections are enough.

    The factors are found in the space of the directions that Q moves.
    """
    q = _square(matrix)
    if (error := float(np.abs(q.T @ q - np.eye(len(q))).max())) > ACCURACY:
        raise ValueError(
            f"QᵀQ differs from the identity by {error:.2g}: not orthogonal; factor_contraction takes any norm up to 1"
        )
    left, moved, _ = np.linalg.svd(q - np.eye(len(q)))
    basis = left[:, moved > RANK_TOLERANCE]  # [n, rank]
    small = basis.T @ q @ basis
    factors = []
    for column in range(len(small)):
        key = _key_to_first_axis(small[column:, column])
        if key is not None:
            small[column:] -= np.outer(key, 2 * key @ small[column:])
            factors.append(_reflection(basis[:, column:] @ key))
    # multiplied from the left, the reflections cancel Q: H_r ··· H_1 Q = I, so that Q = H_1 ··· H_r, and H_r acts first
    return _checked(tuple(reversed(factors)), q)


def factor_contraction(matrix: Matrix) -> tuple[Factor, ...]:
    """Return at most 2n factors whose product is `matrix`, M [n, n] of norm at most 1; rank(M - I) if M is symmetric."""
    m = _square(matrix)
    left, stretch, right = np.linalg.svd(m)
    if stretch[0] > 1 + ACCURACY:
        raise ValueError(f"the norm {stretch[0]:.12g} is above 1: no product of factors with eigenvalues in [-1, 1] reaches it")
    if np.array_equal(m, m.T):
        return _checked(_factor_symmetric(m), m)
    if 1 - stretch[-1] <= ACCURACY:
        return _checked(factor_orthogonal(left @ right), m)
    return _checked(_factor_symmetric(right.T @ np.diag(np.minimum(stretch, 1)) @ right) + factor_orthogonal(left @ right), m)


def eigenvalues_are_one_or_inside(factors: Sequence[Factor], tolerance: float = 1e-9) -> bool:
    """Return whether each eigenvalue of the product is 1 or of modulus below 1; by item 3 it is unless a factor reflects."""
    values = np.linalg.eigvals(product(factors, len(factors[0].key)))
    return bool(np.all((np.abs(values - 1) <= tolerance) | (np.abs(values) < 1 - tolerance)))


def eigenvalues_are_real(factors: Sequence[Factor], tolerance: float = 1e-9) -> bool:
    """Return whether all eigenvalues of the product are real.

    They are for at most two factors of which one has its eigenvalue in [0, 1]; three factors can have complex eigenvalues.
    """
    values = np.linalg.eigvals(product(factors, len(factors[0].key)))
    return bool(np.all(np.abs(values.imag) <= tolerance))


def _factor_symmetric(m: Matrix) -> tuple[Factor, ...]:
    """Return one factor for each eigenvalue of M other than 1, with the eigenvector as its key."""
    values, vectors = np.linalg.eigh((m + m.T) / 2)
    betas = 1 - np.clip(values, -1, 1)
    return tuple(
        Factor(tuple(key.tolist()), float(beta)) for key, beta in zip(vectors.T, betas, strict=True) if beta > RANK_TOLERANCE
    )


def _key_to_first_axis(x: Matrix) -> Matrix | None:
    """Return the unit key of the reflection that takes x to |x| e₁, or None if x is |x| e₁.

    The formula avoids cancellation if x is close to |x| e₁.
    """
    rest = float(x[1:] @ x[1:])
    length = math.sqrt(x[0] ** 2 + rest)
    first = x[0] - length if x[0] <= 0 else -rest / (x[0] + length)
    key = np.concatenate([[first], x[1:]])
    norm = float(np.linalg.norm(key))
    return None if norm == 0 else key / norm


def _reflection(key: Matrix) -> Factor:
    return Factor(tuple((key / np.linalg.norm(key)).tolist()), 2.0)


def _key(dimension: int, entries: dict[int, float]) -> tuple[float, ...]:
    return tuple(entries.get(point, 0.0) for point in range(dimension))


def _square(matrix: Matrix) -> Matrix:
    m = np.array(matrix, dtype=np.float64)
    if m.ndim != 2 or m.shape[0] != m.shape[1] or not m.size or not np.isfinite(m).all():
        raise ValueError(f"a matrix of shape {list(m.shape)} was given: it must be square, not empty and finite")
    return m


def _checked(factors: tuple[Factor, ...], m: Matrix) -> tuple[Factor, ...]:
    if (error := float(np.abs(product(factors, len(m)) - m).max())) > ACCURACY:
        raise ArithmeticError(f"the {len(factors)} factors miss the matrix by {error:.2g}, more than {ACCURACY:g}")
    return factors
