"""The exact heads that the heads of a trained layer are near.

On letter a a head's memory moves by S ← A_a S + B_a. Along a line that all A_a keep nearly invariant it is a head by itself
(exact_lines.py): if every A_a is diagonal, each channel is one. If every A_a is near I - β k kᵀ, keys that meet at 60° make
another (exact_roots.py).

A letters  H heads  n state size  V columns
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from eigentrack.analysis.exact_head import LOOSE, Array, ExactHead
from eigentrack.analysis.exact_lines import exact_line
from eigentrack.analysis.exact_roots import exact_roots
from eigentrack.analysis.invariant_lines import invariant_lines

APART = 0.25  # the cosine up to which keys count as at right angles


def exact_heads(matrices: Array, writes: Array, start: Array, levels: int) -> list[ExactHead]:
    """Of A [A, H, n, n], B [A, H, n, V] and the memory before the first letter [H, n, V]; nearest to exact first.

    Memories are rounded to the whole numbers up to `levels`.
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


def _swaps(name: str, matrices: Array, writes: Array, start: Array, levels: int) -> Iterator[ExactHead | None]:
    betas, keys, rest = _factors(np.eye(matrices.shape[-1]) - matrices)
    if rest > LOOSE:
        return
    moving = [a for a, beta in enumerate(betas) if round(beta) != 0]
    for letters in _connected(np.abs(keys @ keys.T) > APART, moving):
        if not (np.abs(keys[letters] @ keys[letters[0]]) > 1 - APART).all():
            chosen = {a: keys[a] for a in letters}
            yield exact_roots(f"{name}, {len(letters)} roots", chosen, dict(enumerate(betas)), writes, start, levels)


def _factors(changes: Array) -> tuple[Array, Array, float]:
    """β and unit key of each letter, I - A = β k kᵀ, and the norm of what is left at worst."""
    values, vectors = np.linalg.eigh((changes + changes.transpose(0, 2, 1)) / 2)
    place = np.abs(values).argmax(1)
    betas, keys = values[np.arange(len(place)), place], vectors[np.arange(len(place)), :, place]
    left = changes - np.einsum("a,ai,aj->aij", betas, keys, keys)
    return betas, keys, float(np.linalg.norm(left, axis=(1, 2)).max())


def _connected(meet: NDArray[np.bool_], letters: Iterable[int]) -> Iterator[list[int]]:
    """The components of the graph on these letters, each in order."""
    left = set(letters)
    while left:
        group = {min(left)}
        while grown := {b for a in group for b in left if meet[a, b]} - group:
            group |= grown
        left -= group
        yield sorted(group)
