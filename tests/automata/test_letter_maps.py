"""Maps of points: predicates against their definitions on all small maps, ranks against numpy, sinks of named languages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.automata import DFA, language, word_problem_dfa
from eigentrack.automata.letter_maps import (
    changed_rank,
    counter_steps,
    cycle_lengths,
    injective_sink,
    is_constant,
    is_identity,
    is_partial_injection,
    is_permutation,
    is_permutation_or_constant,
    is_swap_or_identity,
    letter_maps,
)

maps_of_points = st.integers(1, 6).flatmap(lambda n: st.tuples(*[st.integers(0, n - 1)] * n))


@pytest.mark.parametrize("points", [1, 2, 3, 4])
def test_predicates_say_what_their_matrices_are(points: int) -> None:
    """A has a 1 in column x, row images[x]."""
    for images in product(range(points), repeat=points):
        matrix = np.eye(points)[:, list(images)]
        orthogonal, one_row = np.array_equal(matrix @ matrix.T, np.eye(points)), (matrix.sum(1) == points).any()
        assert is_identity(images) == np.array_equal(matrix, np.eye(points))
        assert is_permutation(images) == orthogonal
        assert is_constant(images) == one_row
        assert is_permutation_or_constant(images) == (orthogonal or one_row)
        assert is_swap_or_identity(images) == (orthogonal and np.linalg.matrix_rank(matrix - np.eye(points)) <= 1)
        for sink in range(points):
            others = [point for point in range(points) if point != sink]
            stays, one_each = matrix[sink, sink] == 1, (matrix[others].sum(1) <= 1).all()
            assert is_partial_injection(images, sink) == (stays and one_each)


@given(maps_of_points)
def test_cycles_are_the_points_that_return(images: tuple[int, ...]) -> None:
    def period(point: int) -> int | None:
        reached = images[point]
        for length in range(1, len(images) + 1):
            if reached == point:
                return length
            reached = images[reached]
        return None

    periods = [length for point in range(len(images)) if (length := period(point)) is not None]
    assert sum(cycle_lengths(images)) == len(periods)
    assert all(cycle_lengths(images).count(length) * length == periods.count(length) for length in periods)


@given(maps_of_points)
def test_ranks_are_those_of_the_matrices(images: tuple[int, ...]) -> None:
    points = len(images)
    matrix = np.eye(points)[:, list(images)]
    if is_permutation(images):
        assert changed_rank(images) == np.linalg.matrix_rank(matrix - np.eye(points))
    for sink in range(points):
        if is_partial_injection(images, sink) and points > 1:
            others = [point for point in range(points) if point != sink]
            partial = matrix[np.ix_(others, others)]
            assert changed_rank(images) == np.linalg.matrix_rank(partial - np.eye(points - 1))
            assert np.linalg.norm(partial, 2) <= 1


@pytest.mark.parametrize(
    ("name", "rank"),
    [("tomita2", 2), ("abab", 4), ("d2", 3), ("d12", 13), ("dyck2-3", 15), ("tomita1", 1), ("tomita4", None), ("parity", None)],
)
def test_sinks_of_named_languages(name: str, rank: int | None) -> None:
    dfa = language(name)
    sink = injective_sink(dfa)
    assert (sink is None) == (rank is None)
    if sink is not None:
        assert set(dfa.transitions[sink]) == {sink}
        assert max(map(changed_rank, letter_maps(dfa).values())) == rank


def test_two_absorbing_states_within_reach_exclude_each_other() -> None:
    """Letter b takes 1 to 2, where 2 is already; without that arrow 3 is a sink, though 2 comes first."""
    assert injective_sink(DFA(("a", "b"), ((3, 1), (3, 2), (2, 2), (3, 3)), frozenset({2}))) is None
    assert injective_sink(DFA(("a", "b"), ((3, 1), (3, 0), (2, 2), (3, 3)), frozenset({2}))) == 3


def test_letter_maps_are_columns_of_the_table() -> None:
    assert letter_maps(language("flip-flop")) == {"0": (0, 0), "1": (1, 1), "i": (0, 1)}


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
