"""Orders and names of permutation groups."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import group
from eigentrack.automata.groups import Permutation
from eigentrack.automata.permutation_group import PermutationGroup


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
