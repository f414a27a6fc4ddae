"""Two-point levels: the same automaton, and every level is reset only or has two points."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, language
from eigentrack.automata.cascade import cascade
from eigentrack.automata.two_point_levels import two_point_cascade
from tests.automata.test_cascade import check
from tests.automata.transformations import automata, automaton, word_problem


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
def test_named_languages(name: str, expected: list[tuple[int, str]]) -> None:
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
