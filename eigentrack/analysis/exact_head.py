"""ExactHead: a memory of a few points that moves in whole numbers, and so without rounding in every float type.

On each letter S ← (I - β k kᵀ) S + β k vᵀ with whole β, k, v and S: a reset of one point, its reflection, or a swap of two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigentrack.compiler.plan import Factor, Move

Array = NDArray[np.float64]
State = tuple[tuple[int, ...], ...]  # [points][columns]

FAINT = 0.1  # of the largest column
NEAR = 0.3  # how far from exact a β, or a write in units of the memory's size, may lie to be snapped
LOOSE = 0.5  # beyond, another exact head may be as near


@dataclass(frozen=True)
class ExactHead:
    """`moved` is the largest change that made it exact: of a β, of two keys' cosine, of a write, or a leak that was cut."""

    name: str
    start: State
    moves: tuple[Move, ...]  # one a letter
    moved: float

    @property
    def columns(self) -> int:
        return len(self.start[0])

    def after(self, state: State, letter: int) -> State:
        for factor in self.moves[letter].factors:
            seen = [sum(int(k) * row[c] for k, row in zip(factor.key, state, strict=True)) for c in range(self.columns)]
            change = [int(factor.beta) * (int(value) - s) for value, s in zip(factor.value, seen, strict=True)]
            state = tuple(
                tuple(entry + int(k) * c for entry, c in zip(row, change, strict=True))
                for k, row in zip(factor.key, state, strict=True)
            )
        return state

    def without_column(self, column: int) -> ExactHead:
        def fewer(factor: Factor) -> Factor:
            return replace(factor, value=factor.value[:column] + factor.value[column + 1 :])

        start = tuple(row[:column] + row[column + 1 :] for row in self.start)
        moves = tuple(replace(move, factors=tuple(map(fewer, move.factors))) for move in self.moves)
        return replace(self, start=start, moves=moves)


def column_sizes(values: Array) -> Array:
    """Of [..., V] the largest modulus in every column; infinite, so that it is rounded away, where a column is faint."""
    sizes = np.abs(values).reshape(-1, values.shape[-1]).max(0)
    return np.where(sizes < FAINT * sizes.max(), np.inf, sizes)


def rounded(values: Array, sizes: Array, levels: int) -> tuple[int, ...]:
    """Whole numbers from -levels to levels for values of at most the column's size: no move mixes columns."""
    return tuple(int(value) for value in np.round(values / sizes * levels))


def factor(key: tuple[int, ...], beta: int, value: tuple[int, ...]) -> Factor:
    return Factor(tuple(map(float, key)), float(beta), tuple(map(float, value)))
