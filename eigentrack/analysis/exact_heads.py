"""The exact heads that the heads of a trained layer are near: memories of a few points that move in whole numbers.

An exact head moves on each letter by S ← (I - β k kᵀ) S + β k vᵀ with whole β, k, v and S, and so without rounding in every
float type: a reset of one point, its reflection, or a swap of two. A trained head moves by S ← A_a S + B_a on letter a.

Lines. Along a unit vector u with uᵀA_a = λ_a uᵀ, λ_a = 1, 0 or -1 for all letters a, the memory s = uᵀS is a head by itself;
if every A_a is diagonal, each channel is such a line. In a trained layer this holds only nearly. The search for u starts from
every left eigenvector of a letter that resets (λ near 0) or reflects (λ near -1): the λ of all letters are rounded, and inverse
iteration turns u to the smallest Σ_a |uᵀ(A_a - λ_a I)|²; a u for which the sum is 0 stays where it is.
Then s moves by s ← (1 - β) s + w: β near 0 keeps s, near 1 sets it to w, near 2 reflects it at w/2. Measured from the mirror
that the reflections share, a reset is s ← w', a reflection s ← -s. The part of uᵀA at right angles to u leaks the rest of the
memory into s; the exact head leaves this part out.

Roots. If every A_a is near I - β k kᵀ, reflections at keys that meet at 60° and 90°, as the roots r = e_i - e_j do, swap
points: a reflection at r swaps i and j. Measured from the point that all mirrors share, S' with rᵀS' = √2 uᵀS for every key u
and its root r moves by swaps alone.

A letters  H heads  m keys, each on its own line  n state size  V columns
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.components import connected
from eigentrack.compiler.plan import Factor, Move

APART = 0.25  # the cosine up to which keys count as at right angles
Array = NDArray[np.float64]
ROUNDS = 8  # rounds of inverse iteration
SAME = 0.999  # the cosine from which two lines are one
EXACT = 1e-9  # added to the diagonal, so that the inverse is finite at an exact line
Pair = tuple[int, int]
TURNED = 0.15  # how far from exact the cosine of two keys may lie; small enough to tell 45° from 60°
State = tuple[tuple[int, ...], ...]  # [points][columns]
FAINT = 0.1  # a column below this share of the largest column is rounded to 0
NEAR = 0.3  # how far from exact a β, or a write in units of the memory's size, may lie to be snapped
LOOSE = 0.5  # a head that is farther from exact is not reported: another exact head may be as near


@dataclass(frozen=True)
class ExactHead:
    """An exact head that a head of a trained layer is near."""

    name: str
    start: State  # the memory before the first letter
    moves: tuple[Move, ...]  # one per letter
    moved: float  # the largest change that rounding made: to a β, to the cosine of two keys, to a write, or by cutting a leak

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


def exact_heads(matrices: Array, writes: Array, start: Array, levels: int) -> list[ExactHead]:
    """Return the exact heads that the heads of a trained layer are near, nearest first.

    Args:
        matrices: A, [A, H, n, n].
        writes: B, [A, H, n, V].
        start: the memory before the first letter, [H, n, V].
        levels: memories are rounded to whole numbers of at most this modulus.
    """
    found: list[ExactHead | None] = []
    identity = np.eye(matrices.shape[-1])
    for h in range(matrices.shape[1]):
        parts = matrices[:, h], writes[:, h], start[h], levels
        is_diagonal = not matrices[:, h][:, identity == 0].any()
        kind, lines = ("channel", [*identity]) if is_diagonal else ("line", invariant_lines(matrices[:, h]))
        found += [exact_line(f"head {h + 1}, {kind} {number}", line, *parts) for number, line in enumerate(lines, start=1)]
        if not is_diagonal:
            found += _swaps(f"head {h + 1}", *parts)
    return sorted((head for head in found if head is not None and head.moved < LOOSE), key=lambda head: head.moved)


def invariant_lines(matrices: Array) -> list[Array]:
    """Return the unit vectors that A [A, n, n] keep nearly on their lines and some letter moves; the caller checks how near."""
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


def exact_line(name: str, unit: Array, matrices: Array, writes: Array, start: Array, levels: int) -> ExactHead | None:
    """Return the exact head along a line, or None if rounding gives none.

    `unit` is the unit vector [n], `matrices` A [A, n, n], `writes` is [A, n, V], `start` [n, V].
    """
    led = np.einsum("i,aij->aj", unit, matrices)
    betas = 1 - led @ unit
    exact = np.round(betas).astype(int)
    flips, resets = exact == 2, exact == 1
    if not np.isin(exact, (0, 1, 2)).all() or not exact.any():
        return None
    along = np.einsum("i,aiv->av", unit, writes)
    mirror = along[flips].mean(0) / 2 if flips.any() else np.zeros(along.shape[1])
    begin, goals = unit @ start - mirror, along - mirror
    held = np.stack([begin, *goals[resets]])
    size = np.abs(held).max()
    if size == 0:
        return None
    leaks = np.linalg.norm(led - (1 - betas)[:, None] * unit, axis=1)
    strays = np.abs(along - 2 * mirror)[flips].max(initial=0.0), np.abs(along[exact == 0]).max(initial=0.0)
    moved = max(np.abs(betas - exact).max(), leaks.max(), max(strays) / size)
    sizes, moves = _column_sizes(held), []
    for beta, goal in zip(exact.tolist(), goals, strict=True):
        value = _rounded(goal, sizes, levels) if beta == 1 else (0,) * len(goal)
        moves.append(Move((factor((1,), beta, value),)) if beta else Move())
    return ExactHead(name, (_rounded(begin, sizes, levels),), tuple(moves), float(moved))


def _swaps(name: str, matrices: Array, writes: Array, start: Array, levels: int) -> Iterator[ExactHead | None]:
    betas, keys, rest = _factors(np.eye(matrices.shape[-1]) - matrices)
    if rest > LOOSE:
        return
    moving = [a for a, beta in enumerate(betas) if round(beta) != 0]
    meeting = np.nonzero(np.abs(keys[moving] @ keys[moving].T) > APART)
    component = connected(len(moving), *meeting)
    for number in np.unique(component):
        letters = [moving[place] for place in np.flatnonzero(component == number)]
        if not (np.abs(keys[letters] @ keys[letters[0]]) > 1 - APART).all():
            chosen = {a: keys[a] for a in letters}
            yield exact_roots(f"{name}, {len(letters)} roots", chosen, dict(enumerate(betas)), writes, start, levels)


def _factors(changes: Array) -> tuple[Array, Array, float]:
    """Return β and the unit key of each letter with I - A ≈ β k kᵀ, and the largest norm of a remainder I - A - β k kᵀ."""
    values, vectors = np.linalg.eigh((changes + changes.transpose(0, 2, 1)) / 2)
    place = np.abs(values).argmax(1)
    betas, keys = values[np.arange(len(place)), place], vectors[np.arange(len(place)), :, place]
    left = changes - np.einsum("a,ai,aj->aij", betas, keys, keys)
    return betas, keys, float(np.linalg.norm(left, axis=(1, 2)).max())


def exact_roots(
    name: str, keys: dict[int, Array], betas: dict[int, float], writes: Array, start: Array, levels: int
) -> ExactHead | None:
    """Return the exact head whose letters swap points, or None if the keys are not near roots e_i - e_j.

    `keys` [n] are those of the letters that reflect, `betas` those of all letters, `writes` is [A, n, V], `start` [n, V].
    """
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
    still, sizes = (0,) * start.shape[1], _column_sizes(begin)
    of_letter = {a: Move((factor(tuple(map(int, root)), 1, still),)) for a, root in zip(letters, roots, strict=True)}
    moves = tuple(of_letter.get(a, Move()) for a in range(len(writes)))
    return ExactHead(name, tuple(_rounded(point, sizes, levels) for point in begin), moves, float(moved))


def swapped_points(products: NDArray[np.int_]) -> list[Pair] | None:
    """Return pairs (i, j) such that the roots e_i - e_j have these inner products, by trying all; None if there are none."""

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


def _column_sizes(values: Array) -> Array:
    """Return the largest modulus in every column of [..., V], or infinity for a faint column, which then rounds to 0."""
    sizes = np.abs(values).reshape(-1, values.shape[-1]).max(0)
    return np.where(sizes < FAINT * sizes.max(), np.inf, sizes)


def _rounded(values: Array, sizes: Array, levels: int) -> tuple[int, ...]:
    """Return the values as whole numbers: a value of its column's size becomes ±levels (no move mixes columns)."""
    return tuple(int(value) for value in np.round(values / sizes * levels))


def factor(key: tuple[int, ...], beta: int, value: tuple[int, ...]) -> Factor:
    return Factor(tuple(map(float, key)), float(beta), tuple(map(float, value)))
