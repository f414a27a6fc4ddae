"""The holonomy decomposition (Krohn–Rhodes), which finds a state by a chain Q ⊃ T1 ⊃ T2 ⊃ … ⊃ {q} of tiles within tiles.

Q all states · P an image set · rep the representative of P's class · depth the longest chain of classes from Q
The words that map rep to itself permute its states (the permutator group) and with them its tiles (the holonomy group, which
may be smaller). A class with its tiles and its holonomy group is a component of the decomposition. The classes of one depth
form a level, whose points are the tiles of these classes, side by side.

The points of a holonomy cascade name such a chain. If the levels above narrow the states down to a set P, the level of P's
class narrows P down to one of its tiles, which its point names. Levels of other depths are skipped: their point is 0. Let P
become P' ⊇ P·a under letter a. If P·a = P', the letter permutes the tiles; otherwise P·a lies in a tile of P', and the level is
reset to that tile.
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
    """A class of equivalent image sets with more than one state; sets are bitmasks."""

    representative: int  # the image set rep
    tiles: tuple[int, ...]  # the tiles of rep
    bijections: Mapping[int, tuple[int, ...]]  # [P][i] → the state of P to which a word rep → P takes the i-th state of rep
    permutator: PermutationGroup  # acts on the states of rep, numbered in ascending order
    group: PermutationGroup  # the holonomy group, acts on the tiles of rep

    def tile(self, image: int, number: int) -> int:
        """Return the tile of P = `image` to which the word rep → P takes tile `number` of rep."""
        onto = dict(zip(members(self.representative), self.bijections[image], strict=True))
        return mask_of(onto[state] for state in members(self.tiles[number]))

    def tile_number(self, image: int, tile: int) -> int:
        """Return the number of the tile of rep that the word rep → P takes to a tile of P = `image`."""
        back = dict(zip(self.bijections[image], members(self.representative), strict=True))
        return self.tiles.index(mask_of(back[state] for state in members(tile)))


@dataclass(frozen=True)
class Holonomy:
    """The holonomy decomposition of an automaton; an automaton of one state has no level."""

    transitions: tuple[tuple[int, ...], ...]  # [state][letter] → the next state
    levels: tuple[tuple[HolonomyClass, ...], ...]  # [depth] → the classes of that depth; depth 0 has the class of Q

    @property
    def components(self) -> tuple[tuple[PermutationGroup, ...], ...]:
        """The holonomy groups of every level, one per class; a group acts on the tiles of its class."""
        return tuple(tuple(c.group for c in level) for level in self.levels)

    @property
    def points(self) -> tuple[int, ...]:
        """The number of points of every level: the tiles of all its classes."""
        return tuple(sum(group.points for group in level) for level in self.components)

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """The level of every image set and the number of its class in that level."""
        classes = [(depth, number, c) for depth, level in enumerate(self.levels) for number, c in enumerate(level)]
        return {image: (depth, number) for depth, number, c in classes for image in c.bijections}


def holonomy(dfa: DFA, limit: int = DEFAULT_LIMIT) -> Holonomy:
    """Return the holonomy decomposition of `dfa`; raise ValueError if it has more than `limit` image sets."""
    images = image_sets(dfa.transitions, limit)
    classes: dict[int, list[int]] = {}  # component → numbers of its sets
    for number, component in enumerate(images.component):
        if images.sets[number].bit_count() > 1:
            classes.setdefault(component, []).append(number)
    # letters never enlarge a set and never lead to larger component numbers, so in this order a class precedes those below it
    order = sorted(classes, key=lambda c: (-images.sets[classes[c][0]].bit_count(), -c))
    parts = tiles([images.sets[classes[c][0]] for c in order], images.sets, dfa.states)
    depth = _depths({c: classes[c] for c in order}, dict(zip(order, parts, strict=True)), images)
    levels: list[list[HolonomyClass]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for c, tiles_of_first in zip(order, parts, strict=True):
        levels[depth[c]].append(_holonomy_class(dfa.transitions, images, classes[c][0], tiles_of_first))
    return Holonomy(dfa.transitions, tuple(map(tuple, levels)))


def _depths(classes: Mapping[int, list[int]], parts: Mapping[int, tuple[int, ...]], images: ImageSets) -> dict[int, int]:
    """Return the depth of every class: the longest path to it from the class of Q, along letters and from sets to tiles.

    Equivalent sets have equivalent tiles, so the tiles of one set per class are enough.
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
    for number in queue:  # the loop appends to the queue
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
    """The chains of tiles in a holonomy decomposition, named by points; the class caches sets and actions."""

    def __init__(self, holonomy: Holonomy) -> None:
        self.holonomy = holonomy
        self._first_points = tuple(map(_first_points, holonomy.levels))
        self.sizes = tuple(
            max(first + len(c.tiles) for first, c in zip(firsts, level, strict=True))
            for firsts, level in zip(self._first_points, holonomy.levels, strict=True)
        )  # number of points per level
        self._sets: dict[Points, int] = {(): (1 << len(holonomy.transitions)) - 1}
        self._actions: dict[tuple[int, int, int, int], tuple[int, ...]] = {}

    def set_below(self, above: Points) -> int:
        """Return the set of states, as a bitmask, to which the points of the first levels narrow the states down."""
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
        """Return the points of a chain that ends at the state."""
        points: Points = ()
        for level in range(len(self.holonomy.levels)):
            points += (self._point_around(level, self.set_below(points), 1 << state),)
        return points

    def action(self, level: int, letter: int, before: Points, after: Points) -> tuple[int, ...]:
        """Return the map of a level's points under a letter that changes the points above from `before` to `after`."""
        source, target = self.set_below(before), self.set_below(after)
        key = level, letter, source, target
        if key not in self._actions:
            self._actions[key] = self._action(*key)
        return self._actions[key]

    def _action(self, level: int, letter: int, source: int, target: int) -> tuple[int, ...]:
        identity = tuple(range(self.sizes[level]))
        decides = self._deciding_class(level, target)
        if decides is None and self._deciding_class(level, source) is None:
            return identity  # the level is skipped before and after the letter: its point stays at 0
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
        """Return the point of the first tile of the set `mask` that contains its subset `part`; 0 if the level is skipped."""
        decides = self._deciding_class(level, mask)
        if decides is None:
            return 0
        found, first = decides
        return next(first + number for number in range(len(found.tiles)) if part & ~found.tile(mask, number) == 0)

    def _deciding_class(self, level: int, mask: int) -> tuple[HolonomyClass, int] | None:
        """Return the class of the set `mask` and the first of its points if the class is in this level, otherwise None."""
        depth, number = self.holonomy.place.get(mask, (-1, 0))  # a single state has no tiles and no level
        return (self.holonomy.levels[level][number], self._first_points[level][number]) if depth == level else None


def _first_points(level: tuple[HolonomyClass, ...]) -> tuple[int, ...]:
    """Return the first point of every class of a level.

    Classes with a nontrivial group have points of their own, side by side, so that the group of the level is no larger than
    the product of their groups. Classes with a trivial group are only reset, so their points start at 0, shared with others.
    """
    firsts, free = [], 0
    for found in level:
        firsts.append(free if found.group.generators else 0)
        free += len(found.tiles) if found.group.generators else 0
    return tuple(firsts)
