"""Invariant lines: unit vectors u along which a memory moves by itself, uᵀA_a = λ_a uᵀ with λ_a = 1, 0 or -1 for all letters a.

In a trained layer they are so only nearly. A line is sought from every left eigenvector of a letter that resets (λ near 0) or
reflects (λ near -1): the λ of all letters are rounded, and u is turned to where they hold best,

    the smallest Σ_a |uᵀ(A_a - λ_a I)|²,

by inverse iteration, which leaves u alone where it holds already.

A letters  n state size
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDS = 8
SAME = 0.999  # the cosine from which two lines are one
EXACT = 1e-9  # keeps the inverse finite at an exact line


def invariant_lines(matrices: Array) -> list[Array]:
    """Of A [A, n, n], those that some letter moves; how nearly they are invariant is for the caller to judge."""
    lines: list[Array] = []
    for line in (_turned(matrices, start) for start in _starts(matrices)):
        if all(abs(line @ other) < SAME for other in lines):
            lines.append(line)
    return lines


def _starts(matrices: Array) -> Iterator[Array]:
    for matrix in matrices:
        values, vectors = np.linalg.eig(matrix.T)
        for value, vector in zip(values, vectors.T, strict=True):
            if not value.imag and round(value.real) in (0, -1):
                yield vector.real / np.linalg.norm(vector.real)


def _turned(matrices: Array, line: Array) -> Array:
    identity = np.eye(len(line))
    for _ in range(ROUNDS):
        values = np.round(np.einsum("i,aij,j->a", line, matrices, line))
        defects = matrices - values[:, None, None] * identity
        line = np.linalg.solve(np.einsum("aij,akj->ik", defects, defects) + EXACT * identity, line)
        line /= np.linalg.norm(line)
    return line
