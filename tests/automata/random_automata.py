"""Small automata for property tests: any complete table, any accepting states."""

from __future__ import annotations

from hypothesis import strategies as st

from eigentrack.automata import DFA


@st.composite
def automata(draw: st.DrawFn, most_states: int = 4, most_letters: int = 3) -> DFA:
    states, letters = draw(st.integers(1, most_states)), draw(st.integers(1, most_letters))
    row = st.tuples(*[st.integers(0, states - 1)] * letters)
    rows = draw(st.tuples(*[row] * states))
    accepting = draw(st.frozensets(st.integers(0, states - 1)))
    return DFA(tuple("abc"[:letters]), rows, accepting, draw(st.integers(0, states - 1)))
