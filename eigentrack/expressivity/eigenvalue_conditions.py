"""Necessary conditions on the eigenvalues of the gates A(σ): Theorems 1 and 2 of Grazzi et al. (2025) on concrete matrices.

Theorem 1.  A stack solves parity only if in some layer some gate has an eigenvalue that is not a real number ≥ 0.
Theorem 2.  A stack counts modulo m, not a power of 2, only if in some layer i some product of 2^(i-1) gates has an eigenvalue
            that is not real.

Both conditions are necessary, not sufficient, and hold for states computed as casts of exact products. On σσσ… layer i may see
2^(i-1) different inputs in turn, since each layer below with real eigenvalues at most doubles the period. "Gates with
nonnegative eigenvalues recognise star-free languages only" is wrong for general matrices: the eigenvalues of the products of
words decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.inexact]
Gates = Mapping[str, Matrix]  # input → A(input)

LARGEST_SEARCH = 100_000  # the most products of one length


def word_products(gates: Gates, length: int) -> dict[tuple[str, ...], Matrix]:
    """Return the matrix by which every word of this length moves the state: A(w_length) ··· A(w_1)."""
    if length < 1:
        raise ValueError(f"length={length} must be at least 1")
    if len(gates) ** length > LARGEST_SEARCH:
        raise ValueError(
            f"{len(gates)} letters have more than {LARGEST_SEARCH} words of length {length}: choose a smaller length"
        )
    products: dict[tuple[str, ...], Matrix] = {(letter,): np.asarray(gate) for letter, gate in gates.items()}
    for _ in range(length - 1):
        products = {(*word, letter): gates[letter] @ matrix for word, matrix in products.items() for letter in gates}
    return products


def has_eigenvalue_off_the_nonnegative_axis(matrix: Matrix, tolerance: float = 1e-9) -> bool:
    values = np.linalg.eigvals(matrix)
    return bool(np.any((np.abs(values.imag) > tolerance) | (values.real < -tolerance)))


def has_complex_eigenvalue(matrix: Matrix, tolerance: float = 1e-9) -> bool:
    return bool(np.any(np.abs(np.linalg.eigvals(matrix).imag) > tolerance))


def layers_that_may_flip(layers: Sequence[Gates]) -> tuple[int, ...]:
    """Return the layers, counted from 1, that meet the condition of Theorem 1; without one, the stack cannot solve parity.

    `layers` has the gates of each layer: input → A(input).
    """
    return tuple(
        number
        for number, gates in enumerate(layers, start=1)
        if any(has_eigenvalue_off_the_nonnegative_axis(np.asarray(gate)) for gate in gates.values())
    )


def layers_that_may_count(layers: Sequence[Gates]) -> tuple[int, ...]:
    """Return the layers, counted from 1, that meet the condition of Theorem 2; without one, the moduli are powers of 2 only.

    `layers` has the gates of each layer: input → A(input).
    """
    return tuple(
        number
        for number, gates in enumerate(layers, start=1)
        if any(has_complex_eigenvalue(matrix) for matrix in word_products(gates, 2 ** (number - 1)).values())
    )


def words_with_a_group(gates: Gates, longest: int, tolerance: float = 1e-9) -> tuple[tuple[str, ...], ...]:
    """Return the words whose product has an eigenvalue of modulus 1 other than 1, so that the state may never settle on www….

    Args:
        gates: input → A(input), the matrix by which the input moves the state.
        longest: the largest length of a word.
        tolerance: the largest distance at which two numbers count as equal.
    """
    found = []
    for length in range(1, longest + 1):
        for word, matrix in word_products(gates, length).items():
            values = np.linalg.eigvals(matrix)
            if np.any((np.abs(np.abs(values) - 1) <= tolerance) & (np.abs(values - 1) > tolerance)):
                found.append(word)
    return tuple(found)
