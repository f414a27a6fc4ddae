"""Automata whose decompositions are known, given by the maps of their letters; and random ones.

BECKS, BEX, HEYBUG, P2HNT and SIX are examples of the SgpDec package (Egri-Nagy, Nehaniv, Mitchell), which prints their holonomy
components.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from eigentrack.automata import DFA, group


def automaton(*letters: Sequence[int], start: int = 0) -> DFA:
    """`letters[a][state]` is the next state."""
    rows = tuple(zip(*letters, strict=True))
    return DFA(tuple(f"letter{a}" for a in range(len(letters))), rows, frozenset({start}), start)


def from_one(*letters: Sequence[int]) -> DFA:
    """States 1..n, as the examples are printed."""
    return automaton(*([state - 1 for state in letter] for letter in letters))


BECKS = from_one(
    [1, 2, 3, 1, 1, 1], [4, 4, 4, 5, 4, 6], [4, 4, 4, 5, 6, 4], [4, 4, 4, 4, 5, 5], [4, 4, 4, 1, 2, 3], [2, 3, 1, 4, 4, 4]
)
BEX = from_one([1, 2, 1, 1], [4, 4, 4, 3], [3, 3, 4, 4], [4, 4, 1, 2], [2, 1, 4, 4])
HEYBUG = from_one([2, 2, 4, 4, 6, 6, 8, 8], [1, 2, 3, 5, 5, 6, 7, 5], [1, 2, 3, 4, 3, 4, 3, 4])
P2HNT = from_one([2, 1, 4, 5, 3], [1, 2, 2, 2, 2], [3, 3, 3, 4, 5])
SIX = from_one(
    [1, 1, 3, 4, 5, 6],
    [2, 2, 3, 4, 5, 6],
    [3, 2, 3, 4, 5, 6],
    [1, 2, 3, 3, 5, 5],
    [1, 2, 4, 4, 6, 6],
    [1, 2, 3, 4, 3, 4],
    [1, 2, 5, 6, 5, 6],
    [1, 2, 3, 4, 5, 2],
)


def full_transformations(n: int) -> DFA:
    """T_n: a cycle, a swap, and a merge of two states."""
    return automaton([*range(1, n), 0], [1, 0, *range(2, n)], [*range(n - 1), 0])


def cerny(n: int) -> DFA:
    """A cycle, and a merge of two states."""
    return automaton([*range(1, n), 0], [*range(n - 1), 0])


def word_problem(name: str, letters: str = "generators", resets: Sequence[int] = ()) -> DFA:
    """A group acting on itself from the right; perhaps with resets to some elements."""
    g = group(name)
    maps = [[g.table[x][a] for x in range(g.order)] for a in g.subset(letters)]
    return automaton(*maps, *([target] * g.order for target in resets))


@st.composite
def automata(draw: st.DrawFn, most_states: int = 6, most_letters: int = 3) -> DFA:
    states = draw(st.integers(1, most_states))
    letter = st.lists(st.integers(0, states - 1), min_size=states, max_size=states) | st.permutations(range(states))
    return automaton(*draw(st.lists(letter, min_size=1, max_size=most_letters)), start=draw(st.integers(0, states - 1)))
