"""Holonomy (Krohn–Rhodes): a state is found by narrowing, Q ⊃ T1 ⊃ T2 ⊃ … ⊃ {q}, each set a tile of the one before.

Q all states · P an image set · rep the representative of P's class · depth the longest chain of classes from Q
The words that return rep to itself permute its states (the permutator group) and with them its tiles (the holonomy group, which
may be smaller). A class is a component (tiles, holonomy group) of the decomposition. The classes of one depth form a level; its
points are the tiles of all of them, side by side.

The points of a holonomy cascade name such a chain. The set P that the levels above leave over is decided at the level of its
class, by a point for one of its tiles. The other levels are skipped: their point rests at 0. Let P become P' ⊇ P·a under letter
a. If P·a = P', the letter permutes the tiles; otherwise P·a lies within a tile of P', to which the level is reset.
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

    Some word rep → P takes the i-th state of rep to `bijections[P][i]`.
    """

    representative: int
    tiles: tuple[int, ...]
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
    bijections = {representative: members(representative)}
    queue, round_trips = [first], set()
    for number in queue:  # grows while it is read
        mask = images.sets[number]
        for letter, target in enumerate(images.images[number]):
            if images.component[target] != images.component[first]:
                continue
            moved = tuple(transitions[state][letter] for state in bijections[mask])
            if images.sets[target] not in bijections:
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
        bijections,
        PermutationGroup(size, tuple(permutations)),
        PermutationGroup(len(parts), tuple(p for p in on_tiles if p != tuple(range(len(parts))))),
    )


def _on_tiles(permutation: Permutation, states: tuple[int, ...], parts: tuple[int, ...]) -> Permutation:
    onto = {state: states[image] for state, image in zip(states, permutation, strict=True)}
    number = {tile: i for i, tile in enumerate(parts)}
    return tuple(number[mask_of(onto[state] for state in members(tile))] for tile in parts)


Points = tuple[int, ...]


class TileChains:
    """Chains of one holonomy; what was computed once is remembered."""

    def __init__(self, holonomy: Holonomy) -> None:
        self.holonomy = holonomy
        self._first_points = tuple(map(_first_points, holonomy.levels))
        self.sizes = tuple(
            max(first + len(c.tiles) for first, c in zip(firsts, level, strict=True))
            for firsts, level in zip(self._first_points, holonomy.levels, strict=True)
        )  # points of every level
        self._sets: dict[Points, int] = {(): (1 << len(holonomy.transitions)) - 1}
        self._actions: dict[tuple[int, int, int, int], tuple[int, ...]] = {}

    def set_below(self, above: Points) -> int:
        """The set that these points of the first levels leave."""
        if above not in self._sets:
            level, mask = len(above) - 1, self.set_below(above[:-1])
            decides = self._deciding_class(level, mask)
            if decides is not None:
                found, first = decides
                mask = found.tile(mask, above[-1] - first)
            self._sets[above] = mask
        return self._sets[above]

    def state(self, points: Points) -> int:
        return members(self.set_below(points))[0]

    def points_of(self, state: int) -> Points:
        """A chain down to the state."""
        points: Points = ()
        for level in range(len(self.holonomy.levels)):
            points += (self._point_around(level, self.set_below(points), 1 << state),)
        return points

    def action(self, level: int, letter: int, before: Points, after: Points) -> tuple[int, ...]:
        """What the letter does to the points of a level when the points above it change from `before` to `after`."""
        source, target = self.set_below(before), self.set_below(after)
        key = level, letter, source, target
        if key not in self._actions:
            self._actions[key] = self._action(*key)
        return self._actions[key]

    def _action(self, level: int, letter: int, source: int, target: int) -> tuple[int, ...]:
        identity = tuple(range(self.sizes[level]))
        decides = self._deciding_class(level, target)
        if decides is None and self._deciding_class(level, source) is None:
            return identity  # the point rests already
        image = mask_of(self.holonomy.transitions[state][letter] for state in members(source))
        if decides is None or image != target:
            return (self._point_around(level, target, image),) * len(identity)
        found, first = decides
        moved = list(identity)
        for number in range(len(found.tiles)):
            tile = mask_of(self.holonomy.transitions[state][letter] for state in members(found.tile(source, number)))
            moved[first + number] = first + found.tile_number(target, tile)
        return tuple(moved)

    def _point_around(self, level: int, mask: int, part: int) -> int:
        """The first tile of the set around its proper part; 0 where the level is skipped."""
        decides = self._deciding_class(level, mask)
        if decides is None:
            return 0
        found, first = decides
        return next(first + number for number in range(len(found.tiles)) if part & ~found.tile(mask, number) == 0)

    def _deciding_class(self, level: int, mask: int) -> tuple[HolonomyClass, int] | None:
        """The class of the set and the first of its points, if the set is decided at this level."""
        depth, number = self.holonomy.place.get(mask, (-1, 0))  # single states are decided
        return (self.holonomy.levels[level][number], self._first_points[level][number]) if depth == level else None


def _first_points(level: tuple[HolonomyClass, ...]) -> tuple[int, ...]:
    """Where the points of every class begin: side by side, so that the level's group is no larger than theirs.

    Classes with a trivial group are only reset, and share their points with the others.
    """
    firsts, free = [], 0
    for found in level:
        firsts.append(free if found.group.generators else 0)
        free += len(found.tiles) if found.group.generators else 0
    return tuple(firsts)
