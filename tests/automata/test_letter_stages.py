"""Letters by stages: generators first, each stage larger than the one before, against sympy's groups and slow definitions."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from sympy.combinatorics import Permutation, PermutationGroup

from eigentrack.automata import group, language, regex_dfa
from eigentrack.automata.letter_maps import Map
from eigentrack.automata.letter_stages import ORDERS, generating_letters, letter_stages, moved_points

GROUPS = {"S3": 2, "S4": 3, "S5": 4, "A5": 2, "Z5": 1, "D4": 2, "Q8": 2, "Z2xZ3": 2}  # with how many generators are found


def points_of(name: str) -> tuple[tuple[int, ...], ...]:
    """How the elements of a group move its points, [point][element]."""
    return tuple(zip(*group(name).permutations, strict=True))


def products_of(maps: list[Map], most: int) -> dict[Map, int]:
    """Return every product of up to `most` maps with its least number of factors, by multiplying all words out."""
    found: dict[Map, int] = {}
    for length in range(most + 1):
        for word in product(maps, repeat=length):
            images = list(range(len(maps[0])))
            for letter in word:
                images = [letter[image] for image in images]
            found.setdefault(tuple(images), length)
    return found


@pytest.mark.parametrize("name", GROUPS)
def test_generators_are_few_and_generate_the_group(name: str) -> None:
    chosen = group(name)
    generators = generating_letters(chosen.permutations, dict(enumerate(chosen.moved)))
    assert len(generators) == GROUPS[name]
    made = PermutationGroup([Permutation(list(chosen.permutations[g])) for g in generators])
    assert made.order() == chosen.order
    for left_out in generators:
        rest = [Permutation(list(chosen.permutations[g])) for g in generators if g != left_out]
        assert not rest or PermutationGroup(rest).order() < chosen.order


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", GROUPS)
def test_stages_grow_from_generators_to_all_letters(name: str, order: str) -> None:
    stages = letter_stages(points_of(name), order)
    assert 0 in stages[0]  # the identity moves nothing
    assert stages[-1] == tuple(range(group(name).order))
    assert all(set(early) < set(late) for early, late in pairwise(stages))


def test_s5_by_rank() -> None:
    """The identity and four swaps, all ten swaps, the twenty cycles of three points, and what moves four and five points."""
    s5, stages = group("S5"), letter_stages(points_of("S5"), "rank")
    assert [len(stage) for stage in stages] == [5, 11, 31, 76, 120]
    assert all(s5.moved[g] in (0, 2) for g in stages[0])
    for most, stage in enumerate(stages[1:], start=2):
        assert {s5.moved[g] for g in stage} == {0, *range(2, most + 1)}


def test_s4_by_words() -> None:
    """A stage holds exactly the elements that are products of so many generators."""
    stages = letter_stages(points_of("S4"), "words")
    elements = group("S4").permutations
    lengths = products_of([elements[g] for g in stages[0] if g], 6)
    assert len(lengths) == 24
    for most, stage in enumerate(stages, start=1):
        assert set(stage) == {g for g, images in enumerate(elements) if lengths[images] <= most}


def test_z5_has_no_element_that_moves_less() -> None:
    assert letter_stages(points_of("Z5"), "rank") == ((0, 1), (0, 1, 2, 3, 4))
    assert letter_stages(points_of("Z5"), "words") == ((0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["parity", "flip-flop", "tomita5", "abab", "dyck2-3"])
def test_letters_that_generate_nothing_else_are_one_stage(name: str, order: str) -> None:
    dfa = language(name)
    assert letter_stages(dfa.transitions, order) == (tuple(range(len(dfa.letters))),)


def test_letters_that_move_nothing_begin() -> None:
    assert letter_stages(regex_dfa("(a|b)*").transitions, "rank") == ((0, 1),)


def test_letters_that_others_spell_come_later() -> None:
    cycle = ((1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1), (0, 1, 2))  # on by one, by two and by three places
    assert letter_stages(cycle, "rank") == ((0,), (0, 1, 2))
    assert letter_stages(cycle, "words") == ((0,), (0, 1), (0, 1, 2))


def test_letters_that_act_alike_come_together() -> None:
    both = ((1, 1, 2), (2, 2, 0), (0, 0, 1))  # a and b go on by one place, c by two
    assert letter_stages(both, "rank") == ((0, 1), (0, 1, 2))


def test_letters_left_out_are_in_no_stage() -> None:
    cycle = ((1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1), (0, 1, 2))
    assert letter_stages(cycle, "words", letters=(1, 2)) == ((1,), (1, 2))


def test_a_map_moves_the_points_that_it_changes() -> None:
    assert [moved_points(images) for images in ((0, 1, 2), (1, 0, 2), (0, 0, 0))] == [0, 2, 2]


def test_bad_orders_are_named() -> None:
    with pytest.raises(ValueError, match="order 'size' of the letters is not known; there are rank, words"):
        letter_stages(points_of("S3"), "size")


def test_too_many_maps_are_refused() -> None:
    """A turn, a swap and a merge generate all 8⁸ maps of eight points."""
    eight = tuple(((q + 1) % 8, {0: 1, 1: 0}.get(q, q), max(q, 1)) for q in range(8))
    with pytest.raises(ValueError, match=r"the 3 letters generate more than 20,000 maps, .*: use no curriculum"):
        letter_stages(eight, "rank")
