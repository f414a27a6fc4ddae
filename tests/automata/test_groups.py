"""Groups against sympy and against their axioms."""

from __future__ import annotations

from itertools import product

import pytest
from sympy.combinatorics import AlternatingGroup, CyclicGroup, DihedralGroup, Permutation, SymmetricGroup

from eigentrack.automata import Group, group, word_problem_dfa


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("S3", SymmetricGroup(3)),
        ("S5", SymmetricGroup(5)),
        ("A4", AlternatingGroup(4)),
        ("A5", AlternatingGroup(5)),
        ("Z7", CyclicGroup(7)),
        ("D4", DihedralGroup(4)),
        ("D5", DihedralGroup(5)),
    ],
)
def test_elements_and_products_are_sympys(name: str, twin: object) -> None:
    ours = group(name)
    permutations = [Permutation(list(map(int, text.split()))) for text in ours.names]
    assert set(permutations) == set(twin.elements)  # type: ignore[attr-defined]
    for x in range(0, ours.order, 3):
        for y in range(0, ours.order, 7):
            # sympy multiplies as we do: p*q applies p first
            assert permutations[ours.table[x][y]] == permutations[x] * permutations[y]
    assert ours.moved == tuple(len(p.support()) for p in permutations)


@pytest.mark.parametrize("name", ["S4", "A4", "Z12", "D6", "Q8", "Z2xZ3", "Z2xZ2xZ2", "S3xZ2"])
def test_the_axioms(name: str) -> None:
    g = group(name)
    elements = range(g.order)
    assert g.table[0] == tuple(elements)
    assert all(g.table[x][0] == x for x in elements)
    assert all(set(row) == set(elements) for row in g.table)
    assert all(g.table[g.table[x][y]][z] == g.table[x][g.table[y][z]] for x in elements for y in elements for z in elements)


@pytest.mark.parametrize("name", ["S4", "A5", "Z12", "D5", "Q8", "Z2xZ3"])
def test_the_generators_generate(name: str) -> None:
    g, found = group(name), {0}
    while grown := {g.table[x][y] for x in found for y in g.generators} - found:
        found |= grown
    assert len(found) == g.order


def order_of(g: Group, x: int) -> int:
    power, n = x, 1
    while power != 0:
        power, n = g.table[power][x], n + 1
    return n


def test_known_orders_tell_groups_apart() -> None:
    assert sorted(order_of(group("Q8"), x) for x in range(8)) == [1, 2, 4, 4, 4, 4, 4, 4]
    assert sorted(order_of(group("D4"), x) for x in range(8)) == [1, 2, 2, 2, 2, 2, 4, 4]
    assert max(order_of(group("Z2xZ3"), x) for x in range(6)) == 6
    assert max(order_of(group("S5"), x) for x in range(120)) == 6


def test_z_counts_by_powers() -> None:
    assert all(group("Z60").table[x][y] == (x + y) % 60 for x in range(60) for y in range(60))


def test_subsets() -> None:
    s5 = group("S5")
    assert (len(s5.subset("all")), len(s5.subset("swaps")), len(s5.subset("upto3"))) == (120, 11, 31)
    assert len(s5.subset("generators")) == 5
    assert all(s5.subset(kind)[0] == 0 for kind in ("all", "swaps", "upto3", "generators"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("S9", "group S9 has more than 5040 elements"),
        ("B3", "group 'B3' is not known: write S5, A5, Z60"),
        ("D2", "at least 3 corners"),
        ("Z100xZ100", "more than 5040 elements"),
        ("S0", "'S0' is not known"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        group(name)


def test_an_unknown_subset() -> None:
    with pytest.raises(ValueError, match="subset 'some' is not known; there are all, swaps, upto3, generators"):
        group("S3").subset("some")


@pytest.mark.parametrize(
    ("name", "subset", "states", "letters"),
    [
        ("S3", "all", 6, 6),
        ("S5", "swaps", 120, 11),
        ("A5", "generators", 60, 4),
        ("Z60", "generators", 60, 2),
        ("Q8", "all", 8, 8),
    ],
)
def test_products_that_are_the_identity_are_accepted(name: str, subset: str, states: int, letters: int) -> None:
    dfa = word_problem_dfa(name, subset)
    assert (dfa.states, len(dfa.letters)) == (states, letters)
    elements = {letter: Permutation([int(image) for image in letter.split()]) for letter in dfa.letters}
    identities = 0
    for word in product(dfa.letters, repeat=3):
        composed = elements[word[0]] * elements[word[1]] * elements[word[2]]
        assert dfa.accepts(word) == composed.is_Identity
        identities += composed.is_Identity
    assert identities > 1 or name == "Z60"


def test_letters_that_generate_less_need_fewer_states() -> None:
    assert word_problem_dfa("Z2xZ3", "swaps").states == 2
    with pytest.raises(ValueError, match="A5 has no elements for the letters 'swaps': choose all or generators"):
        word_problem_dfa("A5", "swaps")
