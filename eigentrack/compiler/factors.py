"""Maps of points as exact products of generalized Householder factors I - b k kᵀ on one-hot vectors.

A swap of points i and j: key e_i - e_j, b = 1. Erasing point i: key e_i, b = 1. A cycle of c points takes c - 1 swaps; a path
of m points that ends in nothing takes m factors. All entries are -1, 0 or 1, so nothing is ever rounded; with unit keys the
swap would have 1/√2 in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.compiler.plan import Factor, Move, Vector


def move_points(images: Sequence[int | None], columns: int) -> Move:
    """The injective map point → images[point], None for nothing, applied to every column."""
    size, nothing = len(images), (0.0,) * columns
    factors: list[Factor] = []
    for chain, is_cycle in _chains(images):
        if not is_cycle:
            factors.append(Factor(_basis(size, {chain[-1]: 1}), 1, nothing))  # the end of the path is lost
        # an erased end moves round to the start of the path as if it were a cycle
        factors += [Factor(_basis(size, {chain[0]: 1, point: -1}), 1, nothing) for point in chain[1:]]
    return Move(tuple(factors))


def reset_points(size: int, targets: Sequence[int], gated: bool) -> Move:
    """Column c becomes the one-hot vector of targets[c]: by the gate and a write, or by overwriting point after point."""
    points = sorted(set(targets)) if gated else range(size)
    writes = (Factor(_basis(size, {point: 1}), 1, tuple(float(t == point) for t in targets)) for point in points)
    return Move(tuple(writes), forget=gated)


def _chains(images: Sequence[int | None]) -> list[tuple[list[int], bool]]:
    """Paths and cycles of the map, each in the order of the map, fixed points left out."""
    starts = [point for point in range(len(images)) if point not in images]  # heads of paths first, then any point of a cycle
    seen: set[int] = set()
    chains = []
    for start in [*starts, *range(len(images))]:
        chain: list[int] = []
        point: int | None = start
        while point is not None and point not in seen:
            seen.add(point)
            chain.append(point)
            point = images[point]
        if chain and not (len(chain) == 1 and point == start):
            chains.append((chain, point is not None))
    return chains


def _basis(size: int, entries: dict[int, int]) -> Vector:
    return tuple(float(entries.get(point, 0)) for point in range(size))
