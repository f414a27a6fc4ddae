"""A cascade: an automaton as levels of points, where the letter and the levels above permute or reset each level.

    points'[l] = action(l, letter, points[0..l-1])[points[l]]        with the OLD points on the right

`read` turns the points of all levels into the state of the automaton: read(step(s, a)) = read(s)·a for every reachable s.

If the group of every level is a 2-group, every level splits into levels that are only reset, and levels of two points that are
swapped, kept or reset. A 2-group on one orbit of 2ᵏ points has blocks of 2 points; the blocks form blocks of 2 again, and so
on, so that k binary digits, coarsest first, name a point. A permutation swaps or keeps a digit, depending on the digits before
it (the coordinates of a wreath product). If a level has several orbits, the number of the orbit comes first, and only resets
change it; the names of points in smaller orbits end with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from eigentrack.automata.congruences import Transitions, orbits, principal_congruence, quotient
from eigentrack.automata.dfa import DFA
from eigentrack.automata.holonomy import TileChains, holonomy
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.letter_maps import (
    Map,
    is_constant,
    is_identity,
    is_permutation,
    is_permutation_or_constant,
    letter_maps,
)
from eigentrack.automata.permutation_group import PermutationGroup

Points = tuple[int, ...]  # one point for each level


@dataclass(frozen=True)
class Level:
    """One level of a cascade: points that are moved by resets and by the permutations of a group."""

    group: PermutationGroup

    @property
    def points(self) -> int:
        return self.group.points

    @property
    def group_order(self) -> int:
        return self.group.order

    @property
    def description(self) -> str:
        return self.group.name


@dataclass(frozen=True)
class Cascade:
    """An automaton decomposed into levels; an automaton of one state has no level."""

    levels: tuple[Level, ...]
    letters: int  # number of letters
    start: Points  # one point per level
    actions: Mapping[tuple[int, int, Points], Map]  # (level, letter, points above) → map of the level; the identity if missing
    outputs: Mapping[Points, int]  # every reachable tuple of points → state of the automaton

    def __post_init__(self) -> None:
        for (level, letter, above), images in self.actions.items():
            points = self.levels[level].points
            if len(images) != points or not is_permutation_or_constant(images):
                raise ValueError(
                    f"level {level} under letter {letter} and points {above}: {images} is no permutation and no reset"
                )
        if self.start not in self.outputs:
            raise ValueError(f"start={self.start} has no state of the automaton")

    def action(self, level: int, letter: int, above: Points) -> Map:
        """Return the map of the level's points under a letter, where `above` are the points of the levels above before it.

        The map is the identity if no word leads to the points `above`.
        """
        return self.actions.get((level, letter, above)) or tuple(range(self.levels[level].points))

    def table(self, level: int) -> list[dict[Points, Map]]:
        """Return a dictionary for every letter: reachable points of the levels above → map of this level's points."""
        contexts = sorted({state[:level] for state in self.outputs})
        return [{above: self.action(level, letter, above) for above in contexts} for letter in range(self.letters)]

    def maps(self, level: int) -> tuple[Map, ...]:
        """Return the distinct maps of the level's points, without the identity."""
        used = dict.fromkeys(images for row in self.table(level) for images in row.values())
        return tuple(images for images in used if not is_identity(images))

    def step(self, state: Points, letter: int) -> Points:
        return tuple(self.action(level, letter, state[:level])[point] for level, point in enumerate(state))

    def read(self, state: Points) -> int:
        """Return the state of the automaton that the points of all levels stand for."""
        if state not in self.outputs:
            raise ValueError(f"no word leads to the points {state}")
        return self.outputs[state]

    def reachable(self) -> tuple[Points, ...]:
        """Return all tuples of points that words lead to from the start, nearest first."""
        return tuple(self.outputs)


def cascade(dfa: DFA, limit: int = DEFAULT_LIMIT) -> Cascade:
    """Return the holonomy cascade of `dfa`: a single level if every letter is a permutation or a reset of the states.

    Raise ValueError if the automaton has more than `limit` image sets or its cascade more than `limit` states.
    """
    found = _cascade(dfa, limit)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(maxsize=4)  # verdicts and several constructions ask for the same cascade
def _cascade(dfa: DFA, limit: int) -> Cascade | str:
    """Return the cascade, or the error message if it is too large, so that failures are cached too."""
    try:
        return _decomposed(dfa, limit)
    except ValueError as too_large:
        return str(too_large)


def _decomposed(dfa: DFA, limit: int) -> Cascade:
    letters = tuple(letter_maps(dfa).values())
    if all(map(is_permutation_or_constant, letters)):
        return explore(
            (dfa.states,), len(letters), (dfa.start,), lambda _, letter, *above: letters[letter], lambda s: s[0], limit
        )
    chains = TileChains(holonomy(dfa, limit))
    return explore(chains.sizes, len(letters), chains.points_of(dfa.start), chains.action, chains.state, limit)


def explore(
    sizes: Sequence[int],
    letters: int,
    start: Points,
    action: Callable[[int, int, Points, Points], Map],
    read: Callable[[Points], int],
    limit: int,
) -> Cascade:
    """Build a cascade by a search from the start; levels that never move and points that are never needed are left out.

    Args:
        sizes: the number of points per level.
        letters: the number of letters.
        start: the points at the start, one per level.
        action: `action(level, letter, before, after)` is the map of a level; `before` and `after` are the points of the levels
            above it, before and after the letter.
        read: the automaton's state for a tuple of points.
        limit: the largest number of reachable tuples of points; ValueError if there are more.
    """
    actions: dict[tuple[int, int, Points], Map] = {}
    outputs = {start: read(start)}
    queue = [start]
    for state in queue:  # the loop appends to the queue
        for letter in range(letters):
            after: Points = ()
            for level, point in enumerate(state):
                key = level, letter, state[:level]
                if key not in actions:
                    actions[key] = action(level, letter, state[:level], after)
                after += (actions[key][point],)
            if after not in outputs:
                if len(outputs) == limit:
                    raise ValueError(f"the cascade has more than {limit} states: raise --image-limit, if memory and time allow")
                outputs[after] = read(after)
                queue.append(after)
    return _without_idle_points(sizes, letters, start, actions, outputs)


def _without_idle_points(
    sizes: Sequence[int],
    letters: int,
    start: Points,
    actions: Mapping[tuple[int, int, Points], Map],
    outputs: Mapping[Points, int],
) -> Cascade:
    """Return the cascade of the levels that ever move, with those points that share an orbit with a reachable point."""
    permutations: list[set[Map]] = [set() for _ in sizes]
    for (level, _, _), images in actions.items():
        if is_permutation(images) and not is_identity(images):
            permutations[level].add(images)
    moving, number = [], []  # level → old point → new point
    for level, reached in enumerate(map(set, zip(*outputs, strict=True))):
        orbit = orbits(permutations[level], sizes[level])
        useful = {orbit[point] for point in reached}
        kept = [point for point in range(sizes[level]) if orbit[point] in useful]
        number.append({point: i for i, point in enumerate(kept)})
        if len(reached) > 1:
            moving.append(level)

    def short(points: Points) -> Points:
        return tuple(number[level][points[level]] for level in moving if level < len(points))

    def renamed(level: int, images: Map) -> Map:
        return tuple(number[level][images[point]] for point in number[level])

    short_actions = {}
    for (level, letter, above), images in actions.items():
        if level in moving and not is_identity(images):
            short_actions[moving.index(level), letter, short(above)] = renamed(level, images)
    groups = [
        PermutationGroup(len(number[level]), tuple(sorted(renamed(level, images) for images in permutations[level])))
        for level in moving
    ]
    return Cascade(
        tuple(map(Level, groups)),
        letters,
        short(start),
        short_actions,
        {short(points): state for points, state in outputs.items()},
    )


Digits = tuple[int, ...]


def two_point_cascade(cascade: Cascade) -> Cascade:
    """Return `cascade` split into levels with a trivial group, and levels of two points with the group Z2.

    Raise ValueError if the group of a level is no 2-group.
    """
    digits = [_digits_of_points(level) for level in cascade.levels]
    points = [{name: point for point, name in enumerate(names)} for names in digits]
    sizes = [1 + max(column) for names in digits for column in zip(*names, strict=True)]
    firsts = list(accumulate((len(names[0]) for names in digits), initial=0))  # the place of each level's first digit
    level_of = [level for level, names in enumerate(digits) for _ in names[0]]

    def decoded(places: Points) -> Points:
        """Return the points of the first levels: of those whose digits are all in `places`."""
        ends = [end for end in firsts[1:] if end <= len(places)]
        return tuple(points[level][places[firsts[level] : end]] for level, end in enumerate(ends))

    def action(place: int, letter: int, before: Points, after: Points) -> Map:
        level = level_of[place]
        names, before_it = digits[level], before[firsts[level] :]
        images = cascade.action(level, letter, decoded(before[: firsts[level]]))
        digit = len(before_it)
        if is_constant(images):
            return (names[images[0]][digit],) * sizes[place]
        moved = list(range(sizes[place]))
        for point, image in enumerate(images):
            if names[point][:digit] == before_it:
                moved[names[point][digit]] = names[image][digit]
        return tuple(moved)

    start = tuple(digit for names, point in zip(digits, cascade.start, strict=True) for digit in names[point])
    return explore(sizes, cascade.letters, start, action, lambda places: cascade.read(decoded(places)), len(cascade.outputs))


def _digits_of_points(level: Level) -> list[Digits]:
    """Return a name for every point: tuples of digits, all of the same length."""
    if level.points == 2 or level.group_order == 1:
        return [(point,) for point in range(level.points)]
    if not level.group.is_two_group:
        raise ValueError(f"a level's group is no 2-group ({level.description}): it does not split into levels of two points")
    orbit = orbits(level.group.generators, level.points)
    binary: dict[int, Digits] = {}
    for number in range(max(orbit) + 1):
        members = [point for point in range(level.points) if orbit[point] == number]
        rows = [[members.index(images[point]) for images in level.group.generators] for point in members]
        binary |= dict(zip(members, _binary_digits(rows), strict=True))
    longest = max(map(len, binary.values()))
    padded = [binary[point] + (0,) * (longest - len(binary[point])) for point in range(level.points)]
    return [(orbit[point], *name) for point, name in enumerate(padded)] if max(orbit) else padded


def _binary_digits(rows: Transitions) -> list[Digits]:
    """Return the binary names of the points of one orbit of a 2-group, where `rows[point][generator]` is the point's image."""
    if len(rows) == 1:
        return [()]
    # the centre of a 2-group has an element of order 2, whose cycles are blocks of two points
    candidates = (principal_congruence(rows, 0, other) for other in range(1, len(rows)))
    block = next(partition for partition in candidates if 2 * (max(partition) + 1) == len(rows))
    outer = _binary_digits(quotient(rows, block))
    return [(*outer[block[point]], int(block[point] in block[:point])) for point in range(len(rows))]
