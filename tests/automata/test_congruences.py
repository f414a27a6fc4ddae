"""Congruences against a search through all partitions, and against the known numbers of subgroups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from eigentrack.automata import DFA
from eigentrack.automata.congruences import (
    Partition,
    Transitions,
    canonical_partition,
    congruences,
    is_trivial_meet,
    meet,
    orbits,
    principal_congruence,
    quotient,
)
from tests.automata.transformations import automata, word_problem


def all_partitions(states: int) -> Iterator[Partition]:
    def grow(labels: tuple[int, ...]) -> Iterator[Partition]:
        if len(labels) == states:
            yield labels
            return
        for label in range(max(labels, default=-1) + 2):
            yield from grow((*labels, label))

    return grow(())


def is_congruence(transitions: Transitions, partition: Partition) -> bool:
    states = range(len(transitions))
    return all(
        partition[transitions[x][a]] == partition[transitions[y][a]]
        for x in states
        for y in states
        if partition[x] == partition[y]
        for a in range(len(transitions[0]))
    )


def is_finer(p: Partition, q: Partition) -> bool:
    return len(set(zip(p, q, strict=True))) == len(set(p))


@given(automata())
@settings(max_examples=60, deadline=None)
def test_all_of_them_are_found(dfa: DFA) -> None:
    expected = {p for p in all_partitions(dfa.states) if is_congruence(dfa.transitions, p)}
    found = congruences(dfa.transitions)
    assert set(found) == expected
    assert len(found) == len(expected)
    assert found[0] == tuple(range(dfa.states))


@given(automata())
@settings(max_examples=60, deadline=None)
def test_a_principal_congruence_is_the_finest_with_its_pair(dfa: DFA) -> None:
    expected = [p for p in all_partitions(dfa.states) if is_congruence(dfa.transitions, p)]
    for y in range(1, dfa.states):
        finest = principal_congruence(dfa.transitions, 0, y)
        with_pair = [p for p in expected if p[0] == p[y]]
        assert finest in with_pair
        assert all(is_finer(finest, p) for p in with_pair)


@pytest.mark.parametrize(
    ("name", "letters", "subgroups"),
    [("Z60", "generators", 12), ("S4", "generators", 30), ("Q8", "generators", 6), ("D4", "all", 10), ("S5", "swaps", 156)],
)
def test_a_group_acting_on_itself_has_one_for_each_subgroup(name: str, letters: str, subgroups: int) -> None:
    transitions = word_problem(name, letters).transitions
    found = congruences(transitions)
    assert len(found) == len(set(found)) == subgroups
    for partition in found:
        sizes = {partition.count(block) for block in partition}
        assert len(sizes) == 1  # cosets


def test_resets_change_no_congruence() -> None:
    assert congruences(word_problem("S3", resets=(0, 4)).transitions) == congruences(word_problem("S3").transitions)


def test_beyond_the_limit_the_maximal_ones_still_tell_all_states_apart() -> None:
    transitions = word_problem("Z2xZ2xZ2xZ2").transitions  # 67 subgroups
    found = congruences(transitions, limit=4)
    assert len(found) < 67
    assert all(is_congruence(transitions, p) for p in found)
    assert is_trivial_meet([p for p in found if max(p) == 1])


def test_the_quotient_of_a_cycle_is_a_cycle() -> None:
    cycle = word_problem("Z6").transitions
    thirds = canonical_partition(state % 3 for state in range(6))
    turn = [row[1] for row in quotient(cycle, thirds)]
    assert sorted(turn) == [0, 1, 2]
    assert all(turn[x] != x for x in range(3))
    with pytest.raises(ValueError, match="is no congruence: block 0 does not move as one"):
        quotient(cycle, (0, 0, 1, 2, 3, 4))


def test_meets() -> None:
    halves, thirds = tuple(s % 2 for s in range(6)), tuple(s % 3 for s in range(6))
    assert meet([halves, thirds]) == tuple(range(6))
    assert is_trivial_meet([halves, thirds])
    assert not is_trivial_meet([halves])
    assert meet([(0, 0, 1, 1), (0, 1, 1, 1)]) == (0, 1, 2, 2)


def test_orbits() -> None:
    assert orbits([(1, 0, 2, 3, 4), (0, 1, 2, 4, 3)], 5) == (0, 0, 1, 2, 2)
    assert orbits([], 3) == (0, 1, 2)
