"""Holonomy against its definition on the enumerated monoid, and against printed decompositions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from eigentrack.automata import DFA
from eigentrack.automata.holonomy import Holonomy, HolonomyClass, holonomy
from eigentrack.automata.image_sets import image_sets, members
from tests.automata.transformations import (
    BECKS,
    BEX,
    HEYBUG,
    P2HNT,
    SIX,
    automata,
    automaton,
    cerny,
    full_transformations,
)

Transformation = tuple[int, ...]


def monoid(dfa: DFA) -> set[Transformation]:
    letters = list(zip(*dfa.transitions, strict=True))
    found = {tuple(range(dfa.states))}
    while grown := {tuple(letter[s] for s in m) for m in found for letter in letters} - found:
        found |= grown
    return found


def image(states: frozenset[int], m: Transformation) -> frozenset[int]:
    return frozenset(m[state] for state in states)


def tiles_by_definition(parent: frozenset[int], extended: set[frozenset[int]]) -> set[frozenset[int]]:
    inside = {s for s in extended if s < parent}
    return {s for s in inside if not any(s < other for other in inside)}


def classes(found: Holonomy) -> list[tuple[int, HolonomyClass]]:
    return [(depth, c) for depth, level in enumerate(found.levels) for c in level]


@given(automata(most_states=4))
@settings(max_examples=60, deadline=None)
def test_classes_levels_tiles_and_groups_are_those_of_the_definition(dfa: DFA) -> None:
    everything, elements = frozenset(range(dfa.states)), monoid(dfa)
    images = {image(everything, m) for m in elements}
    large = [s for s in images if len(s) > 1]
    extended = images | {frozenset({s}) for s in everything}

    def below(p: frozenset[int], q: frozenset[int]) -> bool:
        return any(p <= image(q, m) for m in elements)

    def depth(p: frozenset[int]) -> int:
        """The longest chain above p."""
        return max((1 + depth(q) for q in large if below(p, q) and not below(q, p)), default=0)

    found = holonomy(dfa)
    assert sorted(map(members, found.place)) == sorted(tuple(sorted(s)) for s in large)
    for level, c in classes(found):
        rep = frozenset(members(c.representative))
        equivalent = {s for s in large if below(s, rep) and below(rep, s)}
        assert {frozenset(members(s)) for s in c.bijections} == equivalent
        assert depth(rep) == level
        assert {frozenset(members(t)) for t in c.tiles} == tiles_by_definition(rep, extended)
        returning = [m for m in elements if image(rep, m) == rep]
        places = members(c.representative)
        assert c.permutator.order == len({tuple(m[s] for s in places) for m in returning})
        tiles = [frozenset(members(t)) for t in c.tiles]
        assert c.group.order == len({tuple(tiles.index(image(t, m)) for t in tiles) for m in returning})


@given(automata(most_states=6))
@settings(max_examples=60, deadline=None)
def test_words_lead_from_the_representative_to_every_image_set_and_back(dfa: DFA) -> None:
    elements = monoid(dfa)
    for _, c in classes(holonomy(dfa)):
        rep = members(c.representative)
        reached = {tuple(m[s] for s in rep) for m in elements}
        for target, bijection in c.bijections.items():
            assert bijection in reached
            assert any(tuple(m[s] for s in bijection) == rep for m in elements)
            for number in range(len(c.tiles)):
                tile = c.tile(target, number)
                assert tile & ~target == 0
                assert c.tile_number(target, tile) == number


def components(dfa: DFA) -> list[list[tuple[int, str]]]:
    return [sorted((g.points, g.name) for g in level) for level in holonomy(dfa).components]


def one_a_level(*components: tuple[int, str]) -> list[list[tuple[int, str]]]:
    return [[component] for component in components]


@pytest.mark.parametrize(
    ("dfa", "expected"),
    [
        (BECKS, [[(2, "trivial")], [(3, "S3"), (4, "Z3")], [(2, "Z2"), (3, "Z3")], [(2, "Z2")], [(2, "trivial")]]),
        (BEX, one_a_level((2, "trivial"), (3, "Z2"), (2, "Z2"), (2, "Z2"), (2, "Z2"))),
        (
            SIX,
            [
                [(5, "trivial")],
                [(4, "trivial")],
                [(3, "trivial"), (4, "trivial")],
                [(3, "trivial"), (4, "Z2")],
                [(2, "trivial"), (3, "Z3")],
                [(2, "Z2")],
            ],
        ),
        (automaton([4] * 5), [[(5, "trivial")]]),  # a constant map
        (automaton([3, 1, 3, 3]), [[(3, "trivial")], [(2, "trivial")]]),  # no single state is an image
        (full_transformations(3), one_a_level((3, "S3"), (2, "Z2"))),
        (full_transformations(5), one_a_level((5, "S5"), (4, "S4"), (3, "S3"), (2, "Z2"))),
        (cerny(4), one_a_level((4, "Z4"), (3, "Z3"), (2, "Z2"))),
        (cerny(6), one_a_level((6, "Z6"), (5, "Z5"), (4, "Z4"), (3, "Z3"), (2, "Z2"))),
        (automaton([0]), []),
    ],
    ids=["BECKS", "BEX", "SIX", "constant", "no-singleton", "T3", "T5", "C4", "C6", "one-state"],
)
def test_printed_decompositions(dfa: DFA, expected: list[list[tuple[int, str]]]) -> None:
    assert components(dfa) == expected


def test_becks_has_its_points_side_by_side() -> None:
    assert holonomy(BECKS).points == (2, 7, 5, 2, 2)


def test_heybug_has_six_levels_without_groups() -> None:
    found = components(HEYBUG)
    assert len(found) == 6
    assert {name for level in found for _, name in level} == {"trivial"}


def test_the_permutator_group_can_be_larger_than_the_holonomy_group() -> None:
    (top,) = holonomy(P2HNT).levels[0]
    assert (top.permutator.order, top.group.order) == (6, 1)


def test_a_tile_that_is_no_image_of_its_set_lies_deeper() -> None:
    """{0, 2} is an image of Q alone, but a tile of {0, 2, 3}."""
    found = holonomy(automaton([2, 0, 2, 2], [3, 0, 3, 2]))
    assert {members(s): depth for s, (depth, _) in found.place.items()} == {(0, 1, 2, 3): 0, (0, 2, 3): 1, (0, 2): 2, (2, 3): 2}


def test_t8_has_255_image_sets_and_all_symmetric_groups() -> None:
    t8 = full_transformations(8)
    assert len(image_sets(t8.transitions).sets) == 255
    assert components(t8) == one_a_level(*((n, f"S{n}" if n > 2 else "Z2") for n in range(8, 1, -1)))


def test_image_sets_of_many_states_are_exact() -> None:
    """More states than a machine word has bits."""
    n = 150
    dfa = automaton([min(state + 1, n - 1) for state in range(n)])
    found = image_sets(dfa.transitions)
    assert [members(s) for s in found.sets] == [tuple(range(first, n)) for first in range(n)]
    assert components(dfa) == [[(2, "trivial")]] * (n - 1)  # {0..} has the tiles {1..} and {0}


def test_too_many_image_sets_are_named_with_the_limit() -> None:
    with pytest.raises(ValueError, match="more than 20 image sets: raise --image-limit"):
        holonomy(full_transformations(5), limit=20)
