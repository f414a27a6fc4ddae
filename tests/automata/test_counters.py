"""Counters: numbers and steps add up, for every presentation of Z_m; nothing else counts."""

from __future__ import annotations

from itertools import product

import pytest

from eigentrack.automata import DFA, language, word_problem_dfa
from eigentrack.automata.counters import counter_steps


@pytest.mark.parametrize(("group", "letters"), [("Z2", "all"), ("Z7", "generators"), ("Z12", "all"), ("Z2xZ3", "generators")])
def test_states_are_numbers_and_letters_steps(group: str, letters: str) -> None:
    dfa = word_problem_dfa(group, letters)
    found = counter_steps(dfa)
    assert found is not None
    number, step = found
    assert sorted(number) == list(range(dfa.states))
    assert number[dfa.start] == 0
    for state, letter in product(range(dfa.states), range(len(dfa.letters))):
        assert number[dfa.transitions[state][letter]] == (number[state] + step[letter]) % dfa.states


@pytest.mark.parametrize("name", ["flip-flop", "tomita5", "shell-game5", "binary-mod3", "t3", "abab"])
def test_other_automata_do_not_count(name: str) -> None:
    assert counter_steps(language(name)) is None


def test_a_cycle_that_a_letter_turns_back_is_no_counter() -> None:
    """The dihedral group: a turns the square, b mirrors it."""
    assert counter_steps(DFA(("a", "b"), ((1, 0), (2, 3), (3, 2), (0, 1)), frozenset({0}))) is None
