"""Transition monoids: both ways to enumerate them against a closure of tuples, and the operations against composition."""

from __future__ import annotations

import sys
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from eigentrack.automata import DFA, MonoidTooLarge, TransitionMonoid, language, transition_monoid
from eigentrack.automata.transition_monoid import libsemigroups_monoid, search_monoid
from tests.automata.random_automata import automata

Map = tuple[int, ...]


def shortest_word_length(dfa: DFA, m: Map) -> int:
    """Words are tried one after the other."""
    for length in range(dfa.states**dfa.states):
        for word in product(dfa.letters, repeat=length):
            if all(DFA(dfa.letters, dfa.transitions, dfa.accepting, q).run(word) == m[q] for q in range(dfa.states)):
                return length
    raise AssertionError(f"no word induces {m}")


def closure(dfa: DFA) -> list[Map]:
    letters = list(zip(*dfa.transitions, strict=True))
    found = [tuple(range(dfa.states))]
    for m in found:  # grows while it is read
        for letter in letters:
            if (new := tuple(letter[q] for q in m)) not in found:
                found.append(new)
    return found


@pytest.mark.parametrize("enumerate_monoid", [search_monoid, libsemigroups_monoid])
@settings(max_examples=60, deadline=None)
@given(dfa=automata())
def test_elements_and_tables_are_those_of_the_closure(enumerate_monoid, dfa: DFA) -> None:
    monoid = enumerate_monoid(dfa)
    expected = closure(dfa)
    assert list(map(tuple, monoid.elements.tolist())) == expected
    number = {m: n for n, m in enumerate(expected)}
    for n, m in enumerate(expected):
        for letter, images in enumerate(zip(*dfa.transitions, strict=True)):
            assert monoid.right[n, letter] == number[tuple(images[q] for q in m)]
            assert monoid.left[n, letter] == number[tuple(m[q] for q in images)]


def test_both_ways_agree_on_large_monoids() -> None:
    for name in ("t5", "cerny6", "dyck2-3", "unary60"):
        x, y = search_monoid(language(name)), libsemigroups_monoid(language(name))
        assert np.array_equal(x.elements, y.elements)
        assert np.array_equal(x.right, y.right)


def test_without_libsemigroups(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = transition_monoid(language("t3"))
    monkeypatch.setitem(sys.modules, "libsemigroups_pybind11", None)
    assert np.array_equal(transition_monoid(language("t3")).right, with_it.right)


@settings(max_examples=60, deadline=None)
@given(automata(most_states=3, most_letters=2))
def test_words_products_and_powers(dfa: DFA) -> None:
    monoid = transition_monoid(dfa)
    number = {m: n for n, m in enumerate(closure(dfa))}
    lengths = []
    for n, m in enumerate(number):
        word = monoid.word(n)
        assert monoid.element(word) == n
        lengths.append(len(word))
        for k, other in enumerate(number):
            assert monoid.product(n, k) == number[tuple(other[q] for q in m)]
        powers = [m]  # m^1, m^2, … until one repeats
        while (new := tuple(m[q] for q in powers[-1])) not in powers:
            powers.append(new)
        index = powers.index(new) + 1
        assert monoid.power_cycle(n) == (index, len(powers) + 1 - index)
    assert lengths == [shortest_word_length(dfa, m) for m in number]


def test_the_identity_is_in_the_semigroup_if_a_nonempty_word_gives_it() -> None:
    assert transition_monoid(language("parity")).identity_in_semigroup
    assert transition_monoid(language("flip-flop")).identity_in_semigroup
    assert not transition_monoid(language("ends-ab")).identity_in_semigroup
    assert not transition_monoid(language("abab")).identity_in_semigroup


def test_a_period_can_exceed_the_number_of_states() -> None:
    cycles = DFA(("a",), tuple((q,) for q in (1, 0, 3, 4, 2, 6, 7, 8, 9, 5, 0)), frozenset({0}))
    monoid = transition_monoid(cycles)
    assert monoid.power_cycle(1) == (1, 2 * 3 * 5)


def test_it_is_read_only_and_checked() -> None:
    monoid = transition_monoid(language("t3"))
    for table in (monoid.elements, monoid.right, monoid.left):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1
    with pytest.raises(ValueError, match="element 0 is \\[1, 0\\], but it must be the identity"):
        TransitionMonoid(("a",), np.array([[1, 0]]), np.array([[0]]))
    with pytest.raises(ValueError, match="right has shape \\(1, 1\\) for 1 elements and 2 letters"):
        TransitionMonoid(("a", "b"), np.array([[0]]), np.array([[0]]))
    with pytest.raises(ValueError, match="letter 'x' is not in the alphabet a, b, c"):
        monoid.element("ax")


def random_permutations(states: int) -> DFA:
    rng = np.random.default_rng(0)
    rows = zip(rng.permutation(states).tolist(), rng.permutation(states).tolist(), strict=True)
    return DFA(("a", "b"), tuple(rows), frozenset({0}))


@pytest.mark.parametrize("enumerate_monoid", [search_monoid, libsemigroups_monoid])
def test_the_limit(enumerate_monoid) -> None:
    assert enumerate_monoid(language("t5"), limit=3125).size == 3125
    with pytest.raises(
        MonoidTooLarge, match="5 states has more than 3124 elements, which is the limit: raise it with --monoid-limit"
    ):
        enumerate_monoid(language("t5"), limit=3124)


@pytest.mark.parametrize("enumerate_monoid", [search_monoid, libsemigroups_monoid])
def test_many_states_meet_the_limit_in_seconds(enumerate_monoid) -> None:
    start = time.perf_counter()
    with pytest.raises(
        MonoidTooLarge, match="more than 64000 elements of 4000 bytes, as much as the limit of 1000000 elements of 256"
    ):
        enumerate_monoid(random_permutations(2000))
    assert time.perf_counter() - start < 10


@pytest.mark.slow
@pytest.mark.parametrize("enumerate_monoid", [search_monoid, libsemigroups_monoid])
def test_all_maps_of_seven_points(enumerate_monoid) -> None:
    turn, swap, merge = (*range(1, 7), 0), (1, 0, *range(2, 7)), (0, 0, *range(2, 7))
    t7 = DFA(("a", "b", "c"), tuple(zip(turn, swap, merge, strict=True)), frozenset({0}))
    monoid = enumerate_monoid(t7)
    assert len(np.unique(monoid.elements, axis=0)) == monoid.size == 7**7
    assert monoid.left.shape == (7**7, 3)
