"""Two-point levels: a cascade of 2-groups as one whose levels are only reset, or have two points: swapped, kept or reset.

A 2-group on one orbit of 2ᵏ points has blocks of 2 points, these have blocks of 2 again, and so on: k binary digits, coarsest
first, name a point. A permutation swaps a digit or keeps it, depending on the digits before it: the coordinates of a wreath
product. Where a level has several orbits, the number of the orbit comes first, which only resets change; smaller orbits leave
their last digits at 0.
"""

from __future__ import annotations

from itertools import accumulate

from eigentrack.automata.cascade import Cascade, Level, Points, explore
from eigentrack.automata.congruences import Transitions, orbits, principal_congruence, quotient
from eigentrack.automata.maps import Map, is_constant

Digits = tuple[int, ...]


def two_point_cascade(cascade: Cascade) -> Cascade:
    """The same automaton in levels with a trivial group, and levels with two points and the group Z2."""
    digits = [_digits_of_points(level) for level in cascade.levels]
    points = [{name: point for point, name in enumerate(names)} for names in digits]
    sizes = [1 + max(column) for names in digits for column in zip(*names, strict=True)]
    firsts = list(accumulate((len(names[0]) for names in digits), initial=0))  # where the digits of every level begin
    level_of = [level for level, names in enumerate(digits) for _ in names[0]]

    def decoded(places: Points) -> Points:
        """The points of the levels all of whose digits are there."""
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
    """A name for every point, all of one length."""
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
    """For one orbit of a 2-group: `rows[point][generator]` is the image of the point."""
    if len(rows) == 1:
        return [()]
    # the centre of a 2-group has an element of order 2, whose cycles are blocks of two points
    candidates = (principal_congruence(rows, 0, other) for other in range(1, len(rows)))
    block = next(partition for partition in candidates if 2 * (max(partition) + 1) == len(rows))
    outer = _binary_digits(quotient(rows, block))
    return [(*outer[block[point]], int(block[point] in block[:point])) for point in range(len(rows))]
