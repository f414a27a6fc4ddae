"""Splitting of an automaton of permutations and resets into a few smaller actions that together distinguish all its states.

A congruence gives the action of the letters on its blocks; congruences with trivial meet together determine the state.
Congruences whose actions are equal up to the names of the points are columns of one action: in a network, one state matrix
[points, columns], which one matrix per letter moves. A permutation of p points with c cycles costs p - c reflections; a reset
costs none.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from eigentrack.automata.congruences import (
    Partition,
    Transitions,
    canonical_partition,
    congruences,
    is_trivial_meet,
    meet,
    quotient,
)
from eigentrack.automata.letter_maps import (
    Map,
    changed_rank,
    is_constant,
    is_identity,
    is_permutation,
    is_permutation_or_constant,
)

SEARCH_LIMIT = 50_000  # the most meets that the search for the fewest points computes, in about a second

Item = TypeVar("Item")


@dataclass(frozen=True)
class Action:
    """An action of the letters on points by permutations and resets, and the points that stand for each state."""

    points: int  # number of points
    maps: tuple[Map, ...]  # [letter][point] → the next point
    columns: tuple[Map, ...]  # [column][state] → the point of the column that stands for the state

    def __post_init__(self) -> None:
        for letter, images in enumerate(self.maps):
            if len(images) != self.points or not is_permutation_or_constant(images):
                raise ValueError(f"letter {letter} maps the {self.points} points to {images}: no permutation and no reset")
        if not self.columns:
            raise ValueError("an action needs at least one column")

    @property
    def is_register(self) -> bool:
        """Whether every letter keeps all points or resets them, so that none permutes them."""
        return all(is_identity(images) or is_constant(images) for images in self.maps)

    def factors(self, gated: bool) -> int:
        """Return the number of generalized Householder factors of the costliest letter.

        If `gated`, a gate clears all points at once, so that a reset takes one factor.
        """
        if self.is_register or self.points == 2:  # the state is one number, which is overwritten or changes its sign
            return 1
        reset = 1 if gated else self.points
        return max(reset if is_constant(images) else changed_rank(images) for images in self.maps)


def split(transitions: Transitions) -> tuple[Action, ...]:
    """Return the actions with the fewest reflections per letter, and among these with the fewest points, largest first.

    `transitions[state][letter]` is the next state; every letter must be a permutation or a reset. A single state has no action.
    """
    return _split(tuple(map(tuple, transitions)))


@lru_cache(maxsize=64)  # several constructions ask for the same split
def _split(transitions: tuple[Map, ...]) -> tuple[Action, ...]:
    letters = tuple(zip(*transitions, strict=True))
    for letter, images in enumerate(letters):
        if not is_permutation_or_constant(images):
            raise ValueError(
                f"letter {letter} is neither a permutation nor a reset of the states: decompose the automaton first"
            )
    states = tuple(range(len(transitions)))
    if len(states) == 1:
        return ()
    if not any(map(_reflections, letters)):  # with resets only, splitting saves nothing and every partition is a congruence
        return (Action(len(states), letters, (states,)),)
    costs = {partition: _cost(transitions, partition) for partition in congruences(transitions)}
    fewest = next(k for k in sorted(set(costs.values())) if is_trivial_meet([p for p, cost in costs.items() if cost <= k]))
    alike: dict[tuple[Map, ...], list[Map]] = {}  # maps on the points → columns
    for partition, cost in costs.items():
        if cost <= fewest:
            maps, place = _canonical_action(tuple(zip(*quotient(transitions, partition), strict=True)))
            alike.setdefault(maps, []).append(tuple(place[block] for block in partition))
    chosen = _cheapest_with_trivial_meet({maps: (len(maps[0]), meet(columns)) for maps, columns in alike.items()})
    columns = _cheapest_with_trivial_meet(
        {(maps, column): (len(maps[0]), canonical_partition(column)) for maps in chosen for column in alike[maps]}
    )
    actions = [
        Action(len(maps[0]), maps, tuple(c for m, c in columns if m == maps))
        for maps in dict.fromkeys(maps for maps, _ in columns)
    ]
    return tuple(sorted(actions, key=lambda action: (-action.points, action.maps)))


def _cost(transitions: Transitions, partition: Partition) -> int:
    return max(map(_reflections, set(zip(*quotient(transitions, partition), strict=True))))


def _reflections(images: Map) -> int:
    return changed_rank(images) if is_permutation(images) else 0


def _canonical_action(maps: Sequence[Map]) -> tuple[tuple[Map, ...], Map]:
    """Return the maps with the points renumbered in a way that depends on the action alone, and the new number of each point.

    An orbit of the permutations is numbered by a search from that of its points which gives the smallest table; a reset marks
    the point to which it leads.
    """
    permutations = [images for images in maps if is_permutation(images)]
    marks = [tuple(images[0] == point for images in maps if not is_permutation(images)) for point in range(len(maps[0]))]

    def numbered_from(root: int) -> tuple[list[tuple[tuple[bool, ...], tuple[int, ...]]], list[int]]:
        number, order, table = {root: 0}, [root], []
        for point in order:  # the loop appends to the list
            for images in permutations:
                if images[point] not in number:
                    number[images[point]] = len(order)
                    order.append(images[point])
            table.append((marks[point], tuple(number[images[point]] for images in permutations)))
        return table, order

    orbits, unseen = [], set(range(len(maps[0])))
    while unseen:
        _, members = numbered_from(min(unseen))
        unseen -= set(members)
        orbits.append(min(map(numbered_from, members)))
    order = [point for _, members in sorted(orbits) for point in members]
    place = {point: number for number, point in enumerate(order)}
    renamed = tuple(tuple(place[images[point]] for point in order) for images in maps)
    return renamed, tuple(place[point] for point in range(len(order)))


def _cheapest_with_trivial_meet(items: Mapping[Item, tuple[int, Partition]]) -> list[Item]:
    """Return the items whose partitions have a trivial meet and whose total cost is least, by a shortest path through meets.

    `items` maps each item to (cost, partition). After `SEARCH_LIMIT` meets, return the cheaper of two sets from which no item
    can be left out.
    """
    names = list(items)
    states = len(items[names[0]][1])
    heap: list[tuple[int, Partition, list[Item]]] = [(0, (0,) * states, [])]
    best: dict[Partition, int] = {}
    for _ in range(1 + SEARCH_LIMIT // len(names)):
        cost, partition, path = heapq.heappop(heap)
        if max(partition) + 1 == states:
            return path
        for name in names:
            price, other = items[name]
            finer = meet([partition, other])
            if cost + price < best.get(finer, cost + price + 1):
                best[finer] = cost + price
                heapq.heappush(heap, (cost + price, finer, [*path, name]))
    ascending = sorted(names, key=lambda name: items[name][0])
    pruned = [_pruned({name: items[name][1] for name in order}) for order in (ascending, ascending[::-1])]
    return min(pruned, key=lambda kept: sum(items[name][0] for name in kept))


def _pruned(partitions: Mapping[Item, Partition]) -> list[Item]:
    """Return the items that are left when each in turn is dropped if the meet of the others is still trivial."""
    kept = dict(partitions)
    for name, partition in partitions.items():
        del kept[name]
        if not kept or not is_trivial_meet(kept.values()):
            kept[name] = partition
    return list(kept)
