"""Holonomy (Krohn–Rhodes): a state is found by narrowing, Q ⊃ T1 ⊃ T2 ⊃ … ⊃ {q}, each set a tile of the one before.

Q all states · P an image set · rep the representative of P's class · depth the longest chain of classes from Q
The words that return rep to itself permute its states (the permutator group) and with them its tiles (the holonomy group, which
may be smaller). A class is a component (tiles, holonomy group) of the decomposition. The classes of one depth form a level; its
points are the tiles of all of them, side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from eigentrack.automata.congruences import Transitions
from eigentrack.automata.dfa import DFA
from eigentrack.automata.groups import Permutation
from eigentrack.automata.image_sets import DEFAULT_LIMIT, ImageSets, image_sets, mask_of, members, tiles
from eigentrack.automata.permutation_group import PermutationGroup


@dataclass(frozen=True)
class HolonomyClass:
    """Equivalent image sets with more than one state.

    `arrivals[P]` is the last step (set before, letter) of a word rep → P; it takes the i-th state of rep to `bijections[P][i]`.
    """

    representative: int
    tiles: tuple[int, ...]
    arrivals: Mapping[int, tuple[int, int]]
    bijections: Mapping[int, tuple[int, ...]]
    permutator: PermutationGroup  # on the states of rep, by their place in it
    group: PermutationGroup  # the holonomy group, on the tiles of rep

    def tile(self, image: int, number: int) -> int:
        """The tile of P to which the word rep → P takes tile `number` of rep."""
        onto = dict(zip(members(self.representative), self.bijections[image], strict=True))
        return mask_of(onto[state] for state in members(self.tiles[number]))

    def tile_number(self, image: int, tile: int) -> int:
        """The number of the tile of rep that the word rep → P takes to this tile of P."""
        back = dict(zip(self.bijections[image], members(self.representative), strict=True))
        return self.tiles.index(mask_of(back[state] for state in members(tile)))


@dataclass(frozen=True)
class Holonomy:
    """`levels[depth]` holds the classes of that depth; on top stands the class of Q. An automaton of one state has no level."""

    transitions: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[HolonomyClass, ...], ...]

    @property
    def components(self) -> tuple[tuple[PermutationGroup, ...], ...]:
        """Level by level, the holonomy group of every class, on as many points as the class has tiles."""
        return tuple(tuple(c.group for c in level) for level in self.levels)

    @property
    def points(self) -> tuple[int, ...]:
        """Of every level, all components together."""
        return tuple(sum(group.points for group in level) for level in self.components)

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Image set → its level, and the number of its class there."""
        classes = [(depth, number, c) for depth, level in enumerate(self.levels) for number, c in enumerate(level)]
        return {image: (depth, number) for depth, number, c in classes for image in c.bijections}


def holonomy(dfa: DFA, limit: int = DEFAULT_LIMIT) -> Holonomy:
    """The image sets of the automaton, at most `limit`, in classes and levels."""
    images = image_sets(dfa.transitions, limit)
    classes: dict[int, list[int]] = {}  # component → numbers of its sets
    for number, component in enumerate(images.component):
        if images.sets[number].bit_count() > 1:
            classes.setdefault(component, []).append(number)
    # sets never grow, and letters lead to smaller component numbers: in this order a class comes before all that lie below it
    order = sorted(classes, key=lambda c: (-images.sets[classes[c][0]].bit_count(), -c))
    parts = tiles([images.sets[classes[c][0]] for c in order], images.sets, dfa.states)
    depth = _depths({c: classes[c] for c in order}, dict(zip(order, parts, strict=True)), images)
    levels: list[list[HolonomyClass]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for c, tiles_of_first in zip(order, parts, strict=True):
        levels[depth[c]].append(_holonomy_class(dfa.transitions, images, classes[c][0], tiles_of_first))
    return Holonomy(dfa.transitions, tuple(map(tuple, levels)))


def _depths(classes: Mapping[int, list[int]], parts: Mapping[int, tuple[int, ...]], images: ImageSets) -> dict[int, int]:
    """The longest path from the class of Q, along letters and from sets to tiles.

    Equivalent sets have equivalent tiles, so those of one set of the class are enough.
    """
    component = dict(zip(images.sets, images.component, strict=True))
    depth = dict.fromkeys(classes, 0)
    for c, numbers in classes.items():
        below = {images.component[target] for number in numbers for target in images.images[number]}
        below |= {component[tile] for tile in parts[c] if tile in component}
        for lower in below - {c}:
            if lower in depth:
                depth[lower] = max(depth[lower], depth[c] + 1)
    return depth


def _holonomy_class(transitions: Transitions, images: ImageSets, first: int, parts: tuple[int, ...]) -> HolonomyClass:
    representative = images.sets[first]
    arrivals: dict[int, tuple[int, int]] = {}
    bijections = {representative: members(representative)}
    queue, round_trips = [first], set()
    for number in queue:  # grows while it is read
        mask = images.sets[number]
        for letter, target in enumerate(images.images[number]):
            if images.component[target] != images.component[first]:
                continue
            moved = tuple(transitions[state][letter] for state in bijections[mask])
            if images.sets[target] not in bijections:
                arrivals[images.sets[target]] = mask, letter
                bijections[images.sets[target]] = moved
                queue.append(target)
            back = {state: place for place, state in enumerate(bijections[images.sets[target]])}
            round_trips.add(tuple(back[state] for state in moved))
    size = representative.bit_count()
    permutations = sorted(round_trips - {tuple(range(size))})
    on_tiles = sorted({_on_tiles(permutation, members(representative), parts) for permutation in permutations})
    return HolonomyClass(
        representative,
        parts,
        arrivals,
        bijections,
        PermutationGroup(size, tuple(permutations)),
        PermutationGroup(len(parts), tuple(p for p in on_tiles if p != tuple(range(len(parts))))),
    )


def _on_tiles(permutation: Permutation, states: tuple[int, ...], parts: tuple[int, ...]) -> Permutation:
    onto = {state: states[image] for state, image in zip(states, permutation, strict=True)}
    number = {tile: i for i, tile in enumerate(parts)}
    return tuple(number[mask_of(onto[state] for state in members(tile))] for tile in parts)
