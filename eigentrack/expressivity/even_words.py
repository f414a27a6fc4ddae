"""Words of even length: whether the maps by which they move the states of an automaton form an aperiodic monoid.

A fixed gate g acts on two tokens as g² ≥ 0, so that over pairs of letters a layer with fixed real gates keeps the order of
floats, as a layer with gates ≥ 0 does (docs/theory.md, section 8).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from eigentrack.automata.dfa import DFA
from eigentrack.automata.letter_maps import letter_maps
from eigentrack.automata.transition_monoid import TransitionMonoid, transition_monoid

_CHUNK_ENTRIES = 2**21


@lru_cache(maxsize=32)
def turning_even_word(dfa: DFA) -> tuple[tuple[str, ...], int] | None:
    """Return a word of even length whose powers do not settle, and their period; None if all of them settle."""
    pairs: dict[tuple[int, ...], tuple[str, str]] = {}
    for (a, first), (b, second) in product(letter_maps(dfa).items(), repeat=2):
        pairs.setdefault(tuple(second[state] for state in first), (a, b))
    letters = {str(number): pair for number, pair in enumerate(pairs.values())}
    monoid = transition_monoid(DFA(tuple(letters), tuple(zip(*pairs, strict=True)), dfa.accepting, dfa.start))
    element = _first_that_turns(monoid)
    if element is None:
        return None
    return tuple(letter for pair in monoid.word(element) for letter in letters[pair]), monoid.power_cycle(element)[1]


def _first_that_turns(monoid: TransitionMonoid) -> int | None:
    """Return the first element m with m^(N+1) ≠ m^N for N = 2^k ≥ states, or None if there is none."""
    rows = max(1, _CHUNK_ENTRIES // monoid.states)
    for start in range(0, monoid.size, rows):
        maps = monoid.elements[start : start + rows].astype(np.int64)
        powers = maps
        for _ in range(monoid.states.bit_length()):
            powers = np.take_along_axis(powers, powers, axis=1)
        turning = (np.take_along_axis(maps, powers, axis=1) != powers).any(axis=1)
        if turning.any():
            return start + int(np.argmax(turning))
    return None
