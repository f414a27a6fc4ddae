"""Word problems against products of sympy's permutations."""

from __future__ import annotations

from itertools import product

import pytest
from sympy.combinatorics import Permutation

from eigentrack.automata import word_problem_dfa


@pytest.mark.parametrize(
    ("name", "subset", "states", "letters"),
    [
        ("S3", "all", 6, 6),
        ("S5", "swaps", 120, 11),
        ("A5", "generators", 60, 4),
        ("Z60", "generators", 60, 2),
        ("Q8", "all", 8, 8),
    ],
)
def test_products_that_are_the_identity_are_accepted(name: str, subset: str, states: int, letters: int) -> None:
    dfa = word_problem_dfa(name, subset)
    assert (dfa.states, len(dfa.letters)) == (states, letters)
    elements = {letter: Permutation([int(image) for image in letter.split()]) for letter in dfa.letters}
    identities = 0
    for word in product(dfa.letters, repeat=3):
        composed = elements[word[0]] * elements[word[1]] * elements[word[2]]
        assert dfa.accepts(word) == composed.is_Identity
        identities += composed.is_Identity
    assert identities > 1 or name == "Z60"


def test_letters_that_generate_less_need_fewer_states() -> None:
    assert word_problem_dfa("Z2xZ3", "swaps").states == 2
    with pytest.raises(ValueError, match="A5 has no elements for the letters 'swaps': choose all or generators"):
        word_problem_dfa("A5", "swaps")
