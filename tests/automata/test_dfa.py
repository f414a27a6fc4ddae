"""DFA: frozen, checked, and minimised to one object for each language."""

from __future__ import annotations

from itertools import product

import pytest

from eigentrack.automata import DFA, minimal


def ends_in_b() -> DFA:
    """Five states for a language that needs two; state 4 is unreachable."""
    return DFA(("a", "b"), ((1, 2), (0, 3), (0, 3), (1, 2), (4, 4)), frozenset({2, 3}))


def words(letters: str, longest: int) -> list[str]:
    return ["".join(word) for n in range(longest + 1) for word in product(letters, repeat=n)]


def test_it_runs_and_accepts() -> None:
    for word in words("ab", 6):
        assert ends_in_b().accepts(word) == word.endswith("b")


def test_minimal_keeps_the_language_and_is_unique() -> None:
    small = minimal(ends_in_b())
    assert small.states == 2
    assert all(small.accepts(word) == ends_in_b().accepts(word) for word in words("ab", 8))
    other = DFA(("a", "b"), ((1, 0), (1, 0)), frozenset({0}), start=1)
    assert minimal(other) == small
    assert minimal(small) == small


def test_the_empty_and_the_full_language_need_one_state() -> None:
    none = DFA(("a",), ((1,), (0,)), frozenset())
    assert minimal(none).states == 1
    assert minimal(DFA(("a",), ((1,), (0,)), frozenset({0, 1}))).accepting == frozenset({0})


def test_live_states_are_those_with_a_way_to_acceptance() -> None:
    dfa = DFA(("a", "b"), ((1, 2), (1, 2), (2, 2)), frozenset({1}))
    assert dfa.live_states() == frozenset({0, 1})


def test_from_function_explores_any_hashable_state() -> None:
    dfa = DFA.from_function(
        "ab", (0, 0), lambda s, x: ((s[0] + (x == "a")) % 2, (s[1] + (x == "b")) % 3), lambda s: s == (0, 0)
    )
    assert dfa.states == 6
    for word in words("ab", 6):
        assert dfa.accepts(word) == (word.count("a") % 2 == 0 and word.count("b") % 3 == 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), ((),), frozenset()), "letters=\\(\\) must be distinct, and at least one"),
        ((("a", "a"), ((0, 0),), frozenset()), "must be distinct"),
        ((("a",), ((1,),), frozenset()), "state 0 leads to 1, but there are only 1 states"),
        ((("a",), ((0, 0),), frozenset()), "state 0 has 2 transitions for 1 letters"),
        ((("a",), ((0,),), frozenset({3})), "accepting state 3 is not one of the 1 states"),
        ((("a",), ((0,),), frozenset(), 5), "start=5 is not one of the 1 states"),
    ],
)
def test_bad_tables_are_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DFA(*arguments)


def test_unknown_letters_are_named() -> None:
    with pytest.raises(ValueError, match="letter 'c' is not in the alphabet a, b"):
        ends_in_b().run("abc")
