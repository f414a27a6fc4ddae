"""The multiplication table of a small monoid, by composing tuples: what the algebra is checked against."""

from __future__ import annotations

from eigentrack.automata import TransitionMonoid


def multiplication(monoid: TransitionMonoid) -> list[list[int]]:
    """`table[x][y]` is x·y, x first."""
    maps = [tuple(row) for row in monoid.elements.tolist()]
    number = {m: n for n, m in enumerate(maps)}
    return [[number[tuple(y[q] for q in x)] for y in maps] for x in maps]


def semigroup(monoid: TransitionMonoid) -> set[int]:
    """What the nonempty words induce."""
    table = multiplication(monoid)
    letters = {monoid.element([letter]) for letter in monoid.letters}
    found = set(letters)
    while grown := {table[x][a] for x in found for a in letters} - found:
        found |= grown
    return found
