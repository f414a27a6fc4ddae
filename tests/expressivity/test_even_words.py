"""Words of even length that count: found where there are any, by comparison with all products of pairs of letters."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, language, minimal, regex_dfa
from eigentrack.expressivity.even_words import turning_even_word


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(aa)*", None),  # the length modulo 2
        ("(aaa)*", (("a", "a"), 3)),
        ("(aaaa)*", (("a", "a"), 2)),
        ("(b|ab*a)*", (("a", "b"), 2)),  # parity of a
        ("(abab)*", (("a", "b"), 2)),
        ("a*b*", None),
        ("a{3}(aa)*", None),
    ],
)
def test_known_languages(pattern: str, expected: tuple[tuple[str, ...], int] | None) -> None:
    assert turning_even_word(regex_dfa(pattern)) == expected


def test_parity_since_the_last_reset_does_not_count_over_pairs() -> None:
    assert turning_even_word(language("resettable-parity")) is None


@given(st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=100, deadline=None)
def test_every_word_of_even_length_settles_or_one_is_named(states: int, letters: int, data: st.DataObject) -> None:
    rows = st.tuples(*[st.tuples(*[st.integers(0, states - 1)] * letters)] * states)
    dfa = minimal(DFA(tuple("abc"[:letters]), data.draw(rows), data.draw(st.frozensets(st.integers(0, states - 1)))))

    def image(word: tuple[str, ...]) -> tuple[int, ...]:
        moved = []
        for state in range(dfa.states):
            for letter in word:
                state = dfa.transitions[state][dfa.letters.index(letter)]
            moved.append(state)
        return tuple(moved)

    def period(images: tuple[int, ...]) -> int:
        seen, power = {}, tuple(range(dfa.states))
        while power not in seen:
            seen[power] = len(seen)
            power = tuple(images[state] for state in power)
        return len(seen) - seen[power]

    steps = [image(pair) for pair in product(dfa.letters, repeat=2)]
    products = set(steps)
    while new := {tuple(step[q] for q in first) for first in products for step in steps} - products:
        products |= new
    found = turning_even_word(dfa)
    assert (found is None) == all(period(images) == 1 for images in products)
    if found is not None:
        word, claimed = found
        assert len(word) % 2 == 0
        assert period(image(word)) == claimed > 1
