"""Shortest series with abelian factors, or with products of Z2: against a search over all normal subgroups."""

from __future__ import annotations

from itertools import product

import pytest

from eigentrack.automata import group
from eigentrack.automata.groups import Group
from eigentrack.automata.language_class import ContainedGroup
from eigentrack.expressivity.group_series import abelian_length, two_length, two_length_at_least


def regular(name: str) -> tuple[tuple[int, ...], ...]:
    return group(name).table


def generated(g: Group, elements: frozenset[int]) -> frozenset[int]:
    found, queue = {0}, [0]
    for x in queue:
        for y in elements:
            if (z := g.table[x][y]) not in found:
                found.add(z)
                queue.append(z)
    return frozenset(found)


def shortest(g: Group, subgroup: frozenset[int], two: bool) -> int | None:
    """Brute force: the smallest subgroup whose factor is abelian (of exponent 2), by listing commutators (and all squares)."""
    length = 0
    while len(subgroup) > 1:
        inverse = {x: next(y for y in subgroup if g.table[x][y] == 0) for x in subgroup}
        wanted = {g.table[g.table[inverse[x]][inverse[y]]][g.table[x][y]] for x, y in product(subgroup, repeat=2)}
        if two:
            wanted |= {g.table[x][x] for x in subgroup}
        smaller = generated(g, frozenset(wanted))
        if smaller == subgroup:
            return None
        subgroup, length = smaller, length + 1
    return length


@pytest.mark.parametrize("name", ["Z2", "Z3", "Z8", "Z2xZ4", "Z2xZ2xZ2", "Q8", "D4", "D8", "S3", "A4", "S4", "A5", "Z3xD4"])
def test_lengths(name: str) -> None:
    g = group(name)
    everything = frozenset(range(g.order))
    for length, two in ((abelian_length, False), (two_length, True)):
        expected = shortest(g, everything, two)
        if expected is None:
            with pytest.raises(ValueError, match=f"a group of order {g.order} is no"):
                length(regular(name))
        else:
            assert length(regular(name)) == expected


@pytest.mark.parametrize(("name", "length"), [("Z8", 3), ("Q8", 2), ("D4", 2), ("D8", 3), ("Z2xZ2xZ2", 1), ("Z2xZ4", 2)])
def test_two_groups_of_known_length(name: str, length: int) -> None:
    assert two_length(regular(name)) == length
    abelian = name.startswith("Z")
    assert two_length_at_least(ContainedGroup(group(name).order, name, abelian, True)) <= length
    if abelian:
        assert two_length_at_least(ContainedGroup(group(name).order, name, abelian, True)) == length
