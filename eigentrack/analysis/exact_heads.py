"""The exact heads that the heads of a trained layer are near.

On letter a a head's memory moves by S ← A_a S + B_a. If every A_a is diagonal, each channel is a head by itself. If every A_a
is near I - β k kᵀ, the keys are sorted into groups at right angles: one line, or lines that meet at 60° (exact_lines.py,
exact_roots.py). What is near neither is left out.

A letters  H heads  n state size  V columns
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from eigentrack.analysis.exact_head import NEAR, Array, ExactHead
from eigentrack.analysis.exact_lines import exact_line
from eigentrack.analysis.exact_roots import exact_roots

APART = 0.25  # the cosine up to which keys count as at right angles


def exact_heads(matrices: Array, writes: Array, start: Array, levels: int) -> list[ExactHead]:
    """Of A [A, H, n, n], B [A, H, n, V] and the memory before the first letter [H, n, V]; nearest to exact first.

    Memories are rounded to the whole numbers up to `levels`.
    """
    identity = np.eye(matrices.shape[-1])
    found: list[ExactHead | None] = []
    for h in range(matrices.shape[1]):
        name, changes = f"head {h + 1}", identity - matrices[:, h]
        if not changes[:, identity == 0].any():
            found += [
                exact_line(f"{name}, channel {c + 1}", unit, changes[:, c, c], writes[:, h], start[h], levels)
                for c, unit in enumerate(identity)
            ]
        else:
            found += _heads_of_keys(name, changes, writes[:, h], start[h], levels)
    return sorted((head for head in found if head is not None), key=lambda head: head.moved)


def _heads_of_keys(name: str, changes: Array, writes: Array, start: Array, levels: int) -> Iterator[ExactHead | None]:
    betas, keys, rest = _factors(changes)
    if rest > NEAR:
        return
    moving = [a for a, beta in enumerate(betas) if round(beta) != 0]
    for letters in _connected(np.abs(keys @ keys.T) > APART, moving):
        unit = keys[letters[0]]
        if (np.abs(keys[letters] @ unit) > 1 - APART).all():
            along = betas * (keys @ unit) ** 2
            yield exact_line(f"{name}, key of letter {letters[0] + 1}", unit, along, writes, start, levels)
        else:
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
