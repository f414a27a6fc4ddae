"""DFA: frozen, checked, and minimised to one object for each language."""

from __future__ import annotations

import json
import time
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from eigentrack.automata import DFA, minimal, same_language
from tests.automata.random_automata import automata


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
        (((), ((),), frozenset()), "letters=\\(\\) must be distinct, not empty, and at least one"),
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


def equivalent(dfa: DFA, p: int, q: int) -> bool:
    """By the definition: states that differ are told apart by a word shorter than the number of states."""
    from_p, from_q = (DFA(dfa.letters, dfa.transitions, dfa.accepting, start) for start in (p, q))
    return all(
        from_p.accepts(word) == from_q.accepts(word) for n in range(dfa.states) for word in product(dfa.letters, repeat=n)
    )


@settings(max_examples=150, deadline=None)
@given(automata())
def test_minimal_merges_just_the_equivalent_states(dfa: DFA) -> None:
    small = minimal(dfa)
    assert all(small.accepts(word) == dfa.accepts(word) for n in range(6) for word in product(dfa.letters, repeat=n))
    assert not any(equivalent(small, p, q) for p in range(small.states) for q in range(p))
    assert len(small.transitions) == len(
        {small.run(word) for n in range(small.states) for word in product(dfa.letters, repeat=n)}
    )
    assert small == minimal(small)


def test_minimal_is_fast_where_states_differ_only_far_away() -> None:
    states = 5_000
    line = DFA(("a",), tuple((min(state + 1, states - 1),) for state in range(states)), frozenset({states - 2}))
    start = time.perf_counter()
    assert minimal(line) == line
    assert time.perf_counter() - start < 5


@settings(max_examples=200, deadline=None)
@given(automata(), automata())
def test_same_language_finds_a_shortest_difference(x: DFA, y: DFA) -> None:
    if x.letters != y.letters:
        with pytest.raises(ValueError, match="the alphabets differ"):
            same_language(x, y)
        return
    word = same_language(x, y)
    assert (word is None) == (minimal(x) == minimal(y))
    shorter = range(x.states + y.states if word is None else len(word))
    assert all(
        x.accepts(w) == y.accepts(w) for n in shorter if len(x.letters) ** n < 5000 for w in product(x.letters, repeat=n)
    )
    if word is not None:
        assert x.accepts(word) != y.accepts(word)


def test_same_language_does_not_mind_the_order_of_letters() -> None:
    ends_in_a = DFA(("b", "a"), ((0, 1), (0, 1)), frozenset({1}))
    assert same_language(ends_in_a, DFA(("a", "b"), ((1, 0), (1, 0)), frozenset({1}))) is None
    assert same_language(ends_in_a, ends_in_b()) == ("b",)


@settings(max_examples=50, deadline=None)
@given(automata())
def test_json_round_trip(dfa: DFA) -> None:
    assert DFA.from_json(json.loads(json.dumps(dfa.to_json()))) == dfa


def test_json_defaults() -> None:
    assert DFA.from_json({"letters": ["a"], "transitions": [[0]], "accepting": []}) == DFA(("a",), ((0,),), frozenset())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "key 'colour' of the automaton is not known; there are states, letters, transitions"),
        ({"letters": None}, "letters=None must be a list of strings"),
        ({"letters": "ab"}, "letters='ab' must be a list of strings"),
        ({"letters": ["a", 1]}, "letters must hold strings, not 1"),
        ({"letters": ["a", "a"]}, "must be distinct"),
        ({"transitions": {"0": [1]}}, "transitions={'0': \\[1\\]} must be a list of lists"),
        ({"transitions": [[1, 0], 0]}, "transitions must hold lists, not 0"),
        ({"transitions": [[1, 0], [1]]}, "state 1 has no transition for letter 'b': send it to a state that rejects"),
        ({"transitions": [[1, None], [1, 0]]}, "state 0 has no transition for letter 'b'"),
        ({"transitions": [[1, 0, 1], [1, 0]]}, "state 0 has 3 transitions for 2 letters"),
        ({"transitions": [[1, "0"], [1, 0]]}, "transitions\\[0\\] must hold state numbers, not '0'"),
        ({"transitions": [[1, True], [1, 0]]}, "must hold state numbers, not True"),
        ({"transitions": [[1, 7], [1, 0]]}, "state 0 leads to 7, but there are only 2 states"),
        ({"transitions": []}, "states=2 but transitions has 0 rows"),
        ({"states": 3}, "states=3 but transitions has 2 rows"),
        ({"states": 2.0}, "states=2.0 but"),
        ({"accepting": 1}, "accepting=1 must be a list of state numbers"),
        ({"accepting": [5]}, "accepting state 5 is not one of the 2 states"),
        ({"start": "0"}, "start='0' must be a state number"),
        ({"start": -1}, "start=-1 is not one of the 2 states"),
    ],
)
def test_odd_json_is_named(change: dict[str, Any], message: str) -> None:
    values = {"states": 2, "letters": ["a", "b"], "transitions": [[1, 0], [1, 0]], "accepting": [1], "start": 0}
    assert DFA.from_json(values).states == 2
    with pytest.raises(ValueError, match=message):
        DFA.from_json(values | change)


@pytest.mark.parametrize("key", ["letters", "transitions", "accepting"])
def test_missing_json_is_named(key: str) -> None:
    values = {"letters": ["a"], "transitions": [[0]], "accepting": []}
    with pytest.raises(ValueError, match=f"the automaton lacks '{key}'"):
        DFA.from_json({name: value for name, value in values.items() if name != key})


def test_json_that_is_no_object() -> None:
    with pytest.raises(ValueError, match=r"an automaton is an object with states, letters, .* not \[1\]"):
        DFA.from_json([1])
