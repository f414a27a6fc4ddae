"""Tile chains: the points of a holonomy cascade name a chain of sets, Q ⊃ T1 ⊃ T2 ⊃ … ⊃ {q}, which narrows down on the state q.

The set P that the levels above leave over is decided at the level of its class, by a point for one of its tiles. The other
levels are skipped: their point rests at 0. Let P become P' ⊇ P·a under letter a. If P·a = P', the letter permutes the tiles;
otherwise P·a lies within a tile of P', to which the level is reset.
"""

from __future__ import annotations

from eigentrack.automata.holonomy import Holonomy, HolonomyClass
from eigentrack.automata.image_sets import mask_of, members

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
