"""Congruences: partitions π of the states that every letter a preserves, x π y ⇒ xa π ya.

A partition is a tuple with the block of every state, blocks numbered by first occurrence: (0, 1, 0) puts states 0 and 2
together, and (0, 1, …, n-1) is the trivial partition. `transitions[state][letter]` is the next state.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence

from eigentrack.automata.components import root
from eigentrack.automata.letter_maps import is_permutation

Partition = tuple[int, ...]
Pair = tuple[int, int]
Transitions = Sequence[Sequence[int]]


def canonical_partition(labels: Iterable[Hashable]) -> Partition:
    """Return the partition in which states with equal labels share a block."""
    number: dict[Hashable, int] = {}
    return tuple(number.setdefault(label, len(number)) for label in labels)


def principal_congruence(transitions: Transitions, x: int, y: int) -> Partition:
    """Return the finest congruence that puts x and y into one block."""
    forest = list(range(len(transitions)))
    open_pairs = [(x, y)]
    while open_pairs:
        x, y = open_pairs.pop()
        p, q = root(forest, x), root(forest, y)
        if p != q:
            forest[q] = p
            # take the images of x and y, not of their roots: the joined pairs connect the block, so their images do too
            open_pairs += zip(transitions[x], transitions[y], strict=True)
    return canonical_partition(root(forest, state) for state in range(len(forest)))


def congruences(transitions: Transitions, limit: int = 512) -> tuple[Partition, ...]:
    """Return all congruences, finer ones first: the joins of the principal congruences.

    If there are more than `limit`, return the first `limit` that the search finds, the trivial one, and a maximal congruence
    that separates each pair of states; the meet of those is trivial.
    """
    principal = _principal_congruences(transitions)
    trivial = tuple(range(len(transitions)))
    found: set[Partition] = set()
    heap = [(len(trivial), trivial)]  # coarse ones first
    while heap and len(found) < limit:
        _, partition = heapq.heappop(heap)
        if partition not in found:
            found.add(partition)
            # pairs in the same two blocks have the same join
            joins = {(partition[x], partition[y]): other for other, (x, y) in principal.items() if partition[x] != partition[y]}
            for join in {_join(partition, other) for other in joins.values()}:
                heapq.heappush(heap, (max(join), join))
    if any(partition not in found for _, partition in heap):
        found |= {trivial, *(_maximal_without(pair, principal) for pair in principal.values())}
    return tuple(sorted(found, key=lambda partition: (-max(partition), partition)))


def quotient(transitions: Transitions, partition: Partition) -> tuple[tuple[int, ...], ...]:
    """Return the transitions of the blocks: `[block][letter]` is the next block."""
    rows: dict[int, tuple[int, ...]] = {}
    for state, block in enumerate(partition):
        row = tuple(partition[target] for target in transitions[state])
        if rows.setdefault(block, row) != row:
            raise ValueError(f"partition {partition} is no congruence: block {block} does not move as one")
    return tuple(rows[block] for block in range(len(rows)))


def meet(partitions: Iterable[Partition]) -> Partition:
    """Return the coarsest partition that is finer than all of the partitions: states share a block if they do in each."""
    return canonical_partition(zip(*partitions, strict=True))


def is_trivial_meet(partitions: Iterable[Partition]) -> bool:
    """Return whether every block of the partitions' meet is a single state."""
    joint = meet(partitions)
    return max(joint) + 1 == len(joint)


def _join(partition: Partition, other: Partition) -> Partition:
    """Return the finest partition that is coarser than both; the join of two congruences is a congruence."""
    member = dict(zip(other, partition, strict=True))  # a block of the partition for each block of the other
    forest = list(range(max(partition) + 1))
    for x, y in set(zip(partition, map(member.__getitem__, other), strict=True)):
        if x != y:
            forest[root(forest, x)] = root(forest, y)
    roots = canonical_partition(root(forest, block) for block in range(len(forest)))
    return tuple(map(roots.__getitem__, partition))


def _maximal_without(avoided: Pair, principal: Mapping[Partition, Pair]) -> Partition:
    """Return a congruence that keeps the avoided pair in two blocks, though no coarser congruence does."""
    joined = tuple(range(len(next(iter(principal)))))
    refused: set[Pair] = set()  # blocks whose join would put the avoided pair together
    for other, (x, y) in principal.items():
        if joined[x] != joined[y] and (joined[x], joined[y]) not in refused:
            coarser = _join(joined, other)
            if coarser[avoided[0]] == coarser[avoided[1]]:
                refused.add((joined[x], joined[y]))
            else:
                block = dict(zip(joined, coarser, strict=True))
                refused = {(block[p], block[q]) for p, q in refused}
                joined = coarser
    return joined


def _principal_congruences(transitions: Transitions) -> dict[Partition, Pair]:
    """Return the principal congruences, each with a pair of states that generates it."""
    states = len(transitions)
    letters = list(dict.fromkeys(zip(*transitions, strict=True)))
    rows = list(zip(*letters, strict=True))
    # some power of a permutation letter a is its inverse, so (x, y) and (xa, ya) generate the same congruence: one x per orbit
    orbit = orbits(filter(is_permutation, letters), states)
    firsts = [orbit.index(number) for number in range(max(orbit) + 1)]
    pairs = [(x, y) for x in firsts for y in range(states) if orbit[y] >= orbit[x] and y != x]
    return {principal_congruence(rows, x, y): (x, y) for x, y in pairs}


def orbits(permutations: Iterable[Sequence[int]], points: int) -> Partition:
    """Return the orbits of the permutations on the points 0..points-1, as a partition."""
    forest = list(range(points))
    for images in permutations:
        for point, image in enumerate(images):
            forest[root(forest, image)] = root(forest, point)
    return canonical_partition(root(forest, point) for point in range(points))
