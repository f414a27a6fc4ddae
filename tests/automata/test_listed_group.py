"""Groups by the list of their elements, against sympy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.combinatorics import AlternatingGroup, DihedralGroup, Permutation, PermutationGroup, SymmetricGroup
from sympy.combinatorics.group_constructs import DirectProduct
from sympy.combinatorics.named_groups import AbelianGroup

from eigentrack.automata import group
from eigentrack.automata.listed_group import ListedGroup


def listed(twin: PermutationGroup) -> ListedGroup:
    return ListedGroup(np.array([element.array_form for element in twin.elements], dtype=np.uint8))


def is_sympys(ours: ListedGroup, twin: PermutationGroup) -> None:
    assert ours.order == twin.order()
    assert PermutationGroup([Permutation(row) for row in ours.permutations[[0, *ours.generators]].tolist()]).equals(twin)
    assert ours.abelian == twin.is_abelian
    assert ours.solvable == twin.is_solvable
    assert ours.derived_orders == tuple(subgroup.order() for subgroup in twin.derived_series())
    assert ours.element_orders.tolist() == [Permutation(row).order() for row in ours.permutations.tolist()]
    assert ours.is_two_group == (ours.order in {2**k for k in range(20)})


@pytest.mark.parametrize(
    ("twin", "name"),
    [
        (PermutationGroup([Permutation(0)]), "trivial"),
        (PermutationGroup([Permutation(4)]), "trivial"),
        (SymmetricGroup(6), "S6"),
        (AlternatingGroup(6), "A6"),
        (DihedralGroup(12), "D12"),
        (AbelianGroup(2, 4, 3), "Z2xZ12"),
        (DirectProduct(SymmetricGroup(3), SymmetricGroup(4)), "group of order 144"),
        (DirectProduct(AlternatingGroup(5), DihedralGroup(4)), "group of order 480"),
        (AbelianGroup(*[2] * 8), "x".join(["Z2"] * 8)),
    ],
)
def test_known_groups(twin: PermutationGroup, name: str) -> None:
    ours = listed(twin)
    is_sympys(ours, twin)
    assert ours.name == name
    assert len(ours.generators) <= max(1, ours.order).bit_length()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.permutations(range(5)), min_size=1, max_size=3))
def test_random_groups(generators: list[list[int]]) -> None:
    twin = PermutationGroup([Permutation(images) for images in generators])
    is_sympys(listed(twin), twin)


def test_acting_on_itself_a_group_stays_the_same() -> None:
    s4 = group("S4")
    regular = ListedGroup(np.array(s4.table).T.copy())  # x ↦ x·g
    assert (regular.name, regular.derived_orders) == ("S4", (24, 12, 4, 1))
    assert Counter(regular.element_orders.tolist()) == {1: 1, 2: 9, 3: 8, 4: 6}
