"""Theorems 1 and 2 on concrete gates, in the corrected form, and the counterexample to the uncorrected one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from eigentrack.automata import language
from eigentrack.expressivity.eigenvalue_conditions import (
    Matrix,
    has_complex_eigenvalue,
    has_eigenvalue_off_the_nonnegative_axis,
    layers_that_may_count,
    layers_that_may_flip,
    word_products,
    words_with_a_group,
)

KEEP, FLIP = np.eye(1), -np.eye(1)


def reflection(angle: float) -> Matrix:
    """Over the line at this angle."""
    return np.array([[math.cos(2 * angle), math.sin(2 * angle)], [math.sin(2 * angle), -math.cos(2 * angle)]])


def test_word_products_apply_the_first_letter_first() -> None:
    a, b = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    products = word_products({"a": a, "b": b}, 3)
    assert len(products) == 8
    assert np.array_equal(products["a", "b", "b"], b @ b @ a)
    assert np.array_equal(products["a", "a", "b"], np.zeros((2, 2)))


def test_parity_needs_one_layer_that_may_flip_not_all() -> None:
    forgets = {"0": KEEP, "1": 0.5 * KEEP}
    assert layers_that_may_flip([forgets, forgets]) == ()
    assert layers_that_may_flip([forgets, {"0": KEEP, "1": FLIP}]) == (2,)
    assert layers_that_may_flip([{"1": np.array([[0.0, -1.0], [1.0, 0.0]])}]) == (1,)


def test_a_small_negative_eigenvalue_counts_too() -> None:
    """The printed condition |λ| ≥ 1 was dropped: rounding can keep h ← -¾h alive."""
    assert layers_that_may_flip([{"1": -0.75 * KEEP}]) == (1,)


def test_symmetric_gates_do_not_count_in_the_first_layer_but_may_in_the_second() -> None:
    mirrors = {"odd": reflection(0.0), "even": reflection(math.pi / 3)}
    assert layers_that_may_count([mirrors]) == ()
    assert layers_that_may_count([{"1": FLIP}, mirrors]) == (2,)
    assert layers_that_may_count([{"1": FLIP}, {"odd": reflection(0.3), "even": reflection(0.3)}]) == ()


def test_two_layers_of_symmetric_gates_do_count_modulo_3() -> None:
    """The first layer says whose turn it is, the second reflects over two lines 60° apart by turns."""
    turn, state, seen = 1.0, np.array([math.cos(0.1), math.sin(0.1)]), {}
    for t in range(1, 61):
        turn = -turn
        state = reflection(0.0 if turn < 0 else math.pi / 3) @ state
        place = tuple(np.round(state, 6))
        assert seen.setdefault(place, t % 6) == t % 6
    assert len(seen) == 6


def test_products_of_words_decide_not_letters() -> None:
    """All eigenvalues of both gates are 0, and yet they recognise (abab)*, which is not star-free."""
    e = np.eye(4)
    gates = {
        "a": np.outer(e[1], e[0]) + np.outer(e[3], e[2]),
        "b": np.outer(e[2], e[1]) + np.outer(e[0], e[3]),
    }
    assert not any(has_eigenvalue_off_the_nonnegative_axis(gate) for gate in gates.values())
    assert all(np.linalg.norm(gate, 2) == 1 for gate in gates.values())
    dfa = language("abab")
    for length in range(11):
        for word in product("ab", repeat=length):
            state = e[0]
            for letter in word:
                state = gates[letter] @ state
            assert bool(state[0] == 1) == dfa.accepts(word)
    assert words_with_a_group(gates, 1) == ()
    assert words_with_a_group(gates, 2) == (("a", "b"), ("b", "a"))
    assert has_eigenvalue_off_the_nonnegative_axis(word_products(gates, 2)["a", "b"])


def test_rotations_are_complex_and_triangular_matrices_are_not() -> None:
    assert has_complex_eigenvalue(np.array([[0.6, -0.8], [0.8, 0.6]]))
    assert not has_complex_eigenvalue(np.array([[1.0, 5.0], [0.0, -1.0]]))


@pytest.mark.parametrize(
    ("length", "message"), [(0, "length=0 must be at least 1"), (20, "more than 100000 words of length 20")]
)
def test_bad_lengths_are_named(length: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        word_products({"a": KEEP, "b": FLIP}, length)
