"""Orders and names of permutation groups; their shortest series, against a search over all normal subgroups."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import group
from eigentrack.automata.groups import Group, Permutation
from eigentrack.automata.language_class import ContainedGroup
from eigentrack.automata.permutation_group import PermutationGroup, abelian_length, two_length


def elements(generators: list[Permutation], points: int) -> set[Permutation]:
    found = {tuple(range(points))}
    while grown := {tuple(g[p] for p in x) for x in found for g in generators} - found:
        found |= grown
    return found


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.permutations(range(n)).map(tuple), max_size=3).map(lambda g: (n, g))))
@settings(max_examples=60, deadline=None)
def test_the_order_is_the_number_of_products(drawn: tuple[int, list[Permutation]]) -> None:
    points, generators = drawn
    ours = PermutationGroup(points, tuple(generators))
    size = len(elements(generators, points))
    assert ours.order == size
    assert (ours.name == "trivial") == (size == 1)
    assert ours.is_two_group == math.log2(size).is_integer()


@pytest.mark.parametrize("name", ["Z2", "Z6", "Z2xZ2", "Z2xZ4", "S3", "D4", "Q8", "A4", "S4", "D5", "A5", "S5"])
def test_a_group_acting_on_itself_gets_its_name(name: str) -> None:
    g = group(name)
    rows = tuple(tuple(g.table[x][a] for x in range(g.order)) for a in g.generators)
    ours = PermutationGroup(g.order, rows)
    assert (ours.name, ours.order) == (name, g.order)


@pytest.mark.parametrize(
    ("points", "generators", "name"),
    [
        (8, [(1, 2, 3, 4, 5, 6, 7, 0), (1, 0, 2, 3, 4, 5, 6, 7)], "S8"),
        (7, [(1, 2, 3, 4, 5, 6, 0), (1, 2, 0, 3, 4, 5, 6)], "A7"),
        (6, [(1, 2, 0, 3, 4, 5), (1, 0, 2, 3, 4, 5), (0, 1, 2, 4, 5, 3)], "S3xZ3"),
        (6, [(1, 2, 0, 4, 5, 3), (1, 0, 2, 4, 3, 5)], "S3"),  # twice the same action: no product
        (3, [(0, 1, 2)], "trivial"),
        (5, [(1, 2, 3, 4, 0), (0, 2, 4, 1, 3)], "group of order 20"),
    ],
)
def test_names(points: int, generators: list[Permutation], name: str) -> None:
    assert PermutationGroup(points, tuple(generators)).name == name


def test_only_permutations_generate() -> None:
    with pytest.raises(ValueError, match=r"\(0, 0\) is no permutation of the points 0..1"):
        PermutationGroup(2, ((0, 0),))


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
    assert ContainedGroup(group(name).order, name, abelian, True).least_two_length <= length
    if abelian:
        assert ContainedGroup(group(name).order, name, abelian, True).least_two_length == length
