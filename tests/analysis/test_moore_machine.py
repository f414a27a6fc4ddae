from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.analysis.moore_machine import MooreMachine, first_difference, minimal_machine
from eigentrack.automata import minimal, same_language


@st.composite
def machines(draw: st.DrawFn, classes: int = 3) -> MooreMachine:
    states, letters = draw(st.integers(1, 6)), draw(st.just(2))
    row = st.tuples(*[st.integers(0, states - 1)] * letters)
    transitions = tuple(draw(st.lists(row, min_size=states, max_size=states)))
    outputs = tuple(draw(st.lists(st.integers(0, classes - 1), min_size=states, max_size=states)))
    return MooreMachine(("a", "b"), transitions, outputs, draw(st.integers(0, states - 1)))


def answers(machine: MooreMachine, state: int, longest: int) -> dict[tuple[int, ...], int]:
    """To every word up to this length, from this state."""
    found = {}
    for length in range(longest + 1):
        for word in product(range(len(machine.letters)), repeat=length):
            here = state
            for letter in word:
                here = machine.transitions[here][letter]
            found[word] = machine.outputs[here]
    return found


@given(machines())
def test_minimal_machine_has_one_state_for_every_distinguishable_behaviour(machine: MooreMachine) -> None:
    small = minimal_machine(machine)
    longest = machine.states  # words of n-1 letters tell n states apart
    assert answers(small, small.start, longest) == answers(machine, machine.start, longest)
    reached = {machine.start}
    while grown := {target for state in reached for target in machine.transitions[state]} - reached:
        reached |= grown
    behaviours = {tuple(answers(machine, state, longest).values()) for state in reached}
    assert small.states == len(behaviours)


@given(machines(), machines())
def test_first_difference_is_a_shortest_word(x: MooreMachine, y: MooreMachine) -> None:
    found = first_difference(x, y, with_empty_word=False)
    longest = 7
    here, there = (answers(machine, machine.start, longest) for machine in (x, y))
    wrong = [word for word in here if word and here[word] != there[word]]
    if wrong:
        assert found is not None
        assert len(found) == min(map(len, wrong))
        assert tuple(map("ab".index, found)) in wrong
    else:
        assert found is None or len(found) > longest


@given(machines(classes=2), machines(classes=2))
def test_with_two_answers_it_agrees_with_the_automata(x: MooreMachine, y: MooreMachine) -> None:
    assert minimal_machine(x).states == minimal(x.recogniser()).states
    word = first_difference(x, y, with_empty_word=True)
    other = same_language(x.recogniser(), y.recogniser())
    assert (word is None) == (other is None)
    assert word is None or len(word) == len(other)


def test_ignored_letters_change_no_state() -> None:
    machine = MooreMachine(("0", "1", "-"), ((0, 1, 0), (0, 1, 1)), (0, 1))
    assert machine.ignored() == (2,)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="state 0 leads to 5"):
        MooreMachine(("a",), ((5,),), (0,))
    with pytest.raises(ValueError, match="2 outputs for 1 states"):
        MooreMachine(("a",), ((0,),), (0, 1))
    with pytest.raises(ValueError, match="alphabets differ"):
        first_difference(MooreMachine(("a",), ((0,),), (0,)), MooreMachine(("b",), ((0,),), (0,)), with_empty_word=True)
