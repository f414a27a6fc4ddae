"""Cascades simulate their automata on every reachable state, by permutations and resets that the levels above choose."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, LANGUAGES, language
from eigentrack.automata.cascade import Cascade, Level, cascade, explore, two_point_cascade
from eigentrack.automata.holonomy import TileChains, holonomy
from eigentrack.automata.permutation_group import PermutationGroup
from tests.automata.transformations import (
    BECKS,
    BEX,
    HEYBUG,
    P2HNT,
    automata,
    automaton,
    cerny,
    full_transformations,
    word_problem,
)


def check(dfa: DFA, found: Cascade) -> None:
    """What a cascade promises, with states reached anew by its own steps."""
    assert found.read(found.start) == dfa.start
    letters = range(len(dfa.letters))
    seen = [found.start]
    for state in seen:  # grows while it is read
        for letter in letters:
            moved = []
            for level, point in enumerate(state):
                images = found.action(level, letter, state[:level])
                assert len(images) == found.levels[level].points
                assert len(set(images)) in (1, len(images))
                moved.append(images[point])
            after = found.step(state, letter)
            assert after == tuple(moved)
            assert found.read(after) == dfa.transitions[found.read(state)][letter]
            if after not in seen:
                seen.append(after)
    assert sorted(seen) == sorted(found.reachable())
    for level in range(len(found.levels)):
        assert len({state[level] for state in seen}) > 1  # no level is idle


@given(automata(most_states=6))
@settings(max_examples=150, deadline=None)
def test_random_automata(dfa: DFA) -> None:
    check(dfa, cascade(dfa))


@given(automata(most_states=6))
@settings(max_examples=60, deadline=None)
def test_the_groups_of_the_levels_are_those_of_the_actions(dfa: DFA) -> None:
    found = cascade(dfa)
    for number, level in enumerate(found.levels):
        used = {images for (at, _, _), images in found.actions.items() if at == number and len(set(images)) == level.points}
        assert set(level.group.generators) == used


@pytest.mark.parametrize("name", [name for name in LANGUAGES if language(name).states <= 16 and name != "d12"])
def test_named_languages(name: str) -> None:
    check(language(name), cascade(language(name)))


@pytest.mark.parametrize("dfa", [BECKS, BEX, HEYBUG, P2HNT, cerny(5)], ids=["BECKS", "BEX", "HEYBUG", "P2HNT", "C5"])
def test_known_decompositions(dfa: DFA) -> None:
    check(dfa, cascade(dfa))


def shape(dfa: DFA) -> list[tuple[int, str]]:
    return [(level.points, level.description) for level in cascade(dfa).levels]


def test_permutations_and_resets_stay_one_level() -> None:
    assert shape(word_problem("S5", "swaps")) == [(120, "S5")]
    assert shape(language("flip-flop")) == [(2, "trivial")]
    assert shape(language("resettable-mod3")) == [(3, "Z3")]
    assert shape(automaton([0])) == []


def test_becks_keeps_all_levels() -> None:
    assert shape(BECKS) == [(2, "trivial"), (7, "Z3xS3"), (5, "Z3xZ2"), (2, "Z2"), (2, "trivial")]


def test_classes_that_are_only_reset_share_their_points() -> None:
    """The third letter from the end: three bits, though the lower levels have two and four classes of sets."""
    assert shape(language("third-last-a")) == [(2, "trivial")] * 3


def test_points_and_levels_without_use_are_left_out() -> None:
    assert shape(automaton([4] * 5)) == [(2, "trivial")]
    assert shape(automaton([1, 0, 3, 2, 4])) == [(2, "Z2")]


def test_points_that_only_permutations_need_are_kept() -> None:
    """The lower level turns once, from 0 to 1, before the upper one stops it: a turn of three points needs the third."""

    def action(level: int, letter: int, before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
        return (1, 1) if level == 0 else ((1, 2, 0, 3) if before == (0,) else (0, 1, 2, 3))

    found = explore((2, 4), 1, (0, 0), action, lambda state: state[1], limit=10)
    assert found.reachable() == ((0, 0), (1, 1))
    assert [(level.points, level.description) for level in found.levels] == [(2, "trivial"), (3, "Z3")]


@given(automata(most_states=5))
@example(BECKS)
@example(HEYBUG)
@settings(max_examples=60, deadline=None)
def test_levels_that_are_skipped_rest_at_point_0(dfa: DFA) -> None:
    chains = TileChains(holonomy(dfa))

    def skips(level: int, above: tuple[int, ...]) -> bool:
        return chains.holonomy.place.get(chains.set_below(above), (-1, 0))[0] != level

    seen = [chains.points_of(dfa.start)]
    for before in seen:  # grows while it is read
        assert all(point == 0 for level, point in enumerate(before) if skips(level, before[:level]))
        for letter in range(len(dfa.letters)):
            after: tuple[int, ...] = ()
            for level, point in enumerate(before):
                images = chains.action(level, letter, before[:level], after)
                if skips(level, before[:level]) and skips(level, after):
                    assert images == tuple(range(chains.sizes[level]))
                after += (images[point],)
            if after not in seen:
                seen.append(after)


def test_t5_reaches_all_120_chains() -> None:
    """A permutation takes a chain of sets to its image, and no two of the 120 permutations take it to the same."""
    found = cascade(full_transformations(5))
    check(full_transformations(5), found)
    assert [(level.points, level.group_order) for level in found.levels] == [(5, 120), (4, 24), (3, 6), (2, 2)]
    assert len(found.reachable()) == 120


def test_the_points_above_are_those_before_the_letter() -> None:
    """.*a. : a level that looked at the new points above would answer for the wrong letter."""
    dfa = DFA.from_function("ab", "bb", lambda last, x: last[1] + x, lambda last: last[0] == "a")
    found = cascade(dfa)
    assert len(found.levels) == 2
    word = random.Random(0).choices(range(2), k=200)
    state, wrong, mistakes, expected = found.start, found.start, 0, dfa.start
    for letter in word:
        expected = dfa.transitions[expected][letter]
        state = found.step(state, letter)
        new_top = found.action(0, letter, ())[wrong[0]]
        wrong = new_top, found.action(1, letter, (new_top,))[wrong[1]]
        assert found.read(state) == expected
        mistakes += found.outputs.get(wrong) != expected
    assert mistakes > 20


@pytest.mark.slow
def test_a_hundred_random_automata_of_eight_states() -> None:
    numbers = random.Random(1)
    for _ in range(100):
        dfa = automaton(*([numbers.randrange(8) for _ in range(8)] for _ in range(3)))
        found = cascade(dfa)
        assert all(
            found.read(found.step(s, a)) == dfa.transitions[found.read(s)][a] for s in found.reachable() for a in range(3)
        )


def test_too_many_states_are_named_with_the_limit() -> None:
    with pytest.raises(ValueError, match="the cascade has more than 50 states: raise --image-limit"):
        cascade(full_transformations(5), limit=50)
    with pytest.raises(ValueError, match="more than 10 image sets"):
        cascade(full_transformations(5), limit=10)


def test_bad_cascades_are_refused() -> None:
    level = Level(PermutationGroup(3, ()))
    with pytest.raises(ValueError, match=r"level 0 under letter 0 and points \(\): \(0, 0, 1\) is no permutation and no reset"):
        Cascade((level,), 1, (0,), {(0, 0, ()): (0, 0, 1)}, {(0,): 0})
    with pytest.raises(ValueError, match=r"start=\(1,\) has no state"):
        Cascade((level,), 1, (1,), {}, {(0,): 0})
    with pytest.raises(ValueError, match=r"no word leads to the points \(2,\)"):
        Cascade((level,), 1, (0,), {}, {(0,): 0}).read((2,))


@pytest.mark.parametrize("name", ["t3", "d3", "abab", "resettable-mod3", "cerny4"])
def test_the_table_of_a_level_is_what_its_actions_are(name: str) -> None:
    found = cascade(language(name))
    for level in range(len(found.levels)):
        table = found.table(level)
        contexts = {state[:level] for state in found.reachable()}
        assert all(set(row) == contexts for row in table)
        assert all(
            images == found.action(level, letter, above) for letter, row in enumerate(table) for above, images in row.items()
        )
        moving = {images for row in table for images in row.values()} - {tuple(range(found.levels[level].points))}
        assert set(found.maps(level)) == moving
        assert len(found.maps(level)) == len(moving)


def test_a_limit_is_named_every_time() -> None:
    """What was too large once is not tried again, and still said."""
    for _ in range(2):
        with pytest.raises(ValueError, match="more than 3 image sets: raise --image-limit"):
            cascade(language("cerny4"), limit=3)


def check_refined(dfa: DFA) -> list[tuple[int, str]]:
    whole = cascade(dfa)
    refined = two_point_cascade(whole)
    check(dfa, refined)
    assert len(refined.reachable()) == len(whole.reachable())
    assert all(level.group_order == 1 or level.points == 2 for level in refined.levels)
    return [(level.points, level.description) for level in refined.levels]


BIT, RESET = (2, "Z2"), (2, "trivial")


@pytest.mark.parametrize("name", ["D4", "Z8", "Q8", "Z2xZ4", "Z2xZ2xZ2"])
@pytest.mark.parametrize("resets", [(), (0, 3)])
def test_groups_of_eight_elements_are_three_bits(name: str, resets: tuple[int, ...]) -> None:
    assert check_refined(word_problem(name, resets=resets)) == [BIT] * 3


def test_a_wreath_product_on_four_points_is_two_bits() -> None:
    swaps_in_a_block, swap_of_blocks = [1, 0, 2, 3], [2, 3, 0, 1]
    assert check_refined(automaton(swaps_in_a_block, swap_of_blocks, [0] * 4, [3] * 4)) == [BIT] * 2


def test_orbits_of_different_sizes() -> None:
    """A four-cycle, a swap and a fixed point, which only resets connect."""
    dfa = automaton([1, 2, 3, 0, 5, 4, 6], *([target] * 7 for target in range(7)))
    assert check_refined(dfa) == [(3, "trivial"), BIT, BIT]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resettable-parity", [BIT]),
        ("abab", [RESET, RESET, BIT]),
        ("tomita3", [RESET, RESET, BIT, RESET, RESET]),
        ("tomita5", [BIT, BIT]),
        ("aaaa", [BIT, BIT]),
        ("dyck2-2", [(3, "trivial"), (3, "trivial"), RESET]),
    ],
)
def test_named_languages_in_two_point_levels(name: str, expected: list[tuple[int, str]]) -> None:
    assert check_refined(language(name)) == expected


@given(automata(most_states=5))
@settings(max_examples=100, deadline=None)
def test_random_automata_with_two_groups_only(dfa: DFA) -> None:
    assume(all(level.group.is_two_group for level in cascade(dfa).levels))
    check_refined(dfa)


two_group_letters = st.lists(st.sampled_from(["inner", "outer", "deep", 0, 3, 7]), min_size=1, max_size=5, unique=True)


@given(two_group_letters)
def test_random_actions_on_a_binary_tree(letters: list[str | int]) -> None:
    """Swaps below single nodes of the tree of height 3 generate 2-groups; numbers are resets."""
    swaps = {"inner": [0, 1, 3, 2, 4, 5, 6, 7], "outer": [4, 5, 6, 7, 0, 1, 2, 3], "deep": [2, 3, 0, 1, 4, 5, 6, 7]}
    check_refined(automaton(*(swaps[letter] if isinstance(letter, str) else [letter] * 8 for letter in letters)))


@pytest.mark.parametrize(("name", "group"), [("aaa", "Z3"), ("binary-mod3", "S3"), ("cycle5", "Z5")])
def test_other_groups_are_named(name: str, group: str) -> None:
    with pytest.raises(ValueError, match=rf"a level's group is no 2-group \({group}\)"):
        two_point_cascade(cascade(language(name)))
