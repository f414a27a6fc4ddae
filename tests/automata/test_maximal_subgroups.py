"""Maximal subgroups against the H-classes of the multiplication table, and against groups that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from eigentrack.automata import DFA, green_relations, group, language, maximal_subgroups, regex_dfa, transition_monoid
from eigentrack.automata.listed_group import ListedGroup
from eigentrack.automata.maximal_subgroups import MonoidSubgroup
from eigentrack.automata.word_problems import word_problem_dfa
from tests.automata.multiplication import multiplication
from tests.automata.random_automata import automata


def subgroups_of(dfa: DFA) -> tuple[MonoidSubgroup, ...]:
    monoid = transition_monoid(dfa)
    return maximal_subgroups(monoid, green_relations(monoid))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(automata(most_states=4, most_letters=2))
def test_they_are_the_largest_groups_around_idempotents(dfa: DFA) -> None:
    monoid = transition_monoid(dfa)
    assume(monoid.size <= 80)
    table, everything = multiplication(monoid), range(monoid.size)
    for subgroup in subgroups_of(dfa):
        e, members = subgroup.idempotent, subgroup.elements.tolist()
        # the units of e·M·e: x with e·x = x = x·e and an inverse of the same kind
        local = [x for x in everything if table[e][x] == x == table[x][e]]
        assert members == [x for x in local if any(table[x][y] == e == table[y][x] for y in local)]
        assert subgroup.states == tuple(sorted(set(monoid.elements[e].tolist())))
        for x, row in zip(members, subgroup.group.permutations.tolist(), strict=True):
            assert [subgroup.states[point] for point in row] == [monoid.elements[x][q] for q in subgroup.states]


def test_all_maps_of_five_points_contain_the_symmetric_groups() -> None:
    found = sorted(subgroups_of(language("t5")), key=lambda subgroup: -subgroup.group.order)
    assert [subgroup.group.name for subgroup in found] == ["S5", "S4", "S3", "Z2", "trivial"]
    assert [len(subgroup.states) for subgroup in found] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("name", ["Z6", "S3", "D4", "D5", "Q8", "A4", "S4", "A5", "S5", "Z2xZ2"])
def test_word_problems_give_their_group(name: str) -> None:
    (subgroup,) = subgroups_of(word_problem_dfa(name, "generators"))
    assert subgroup.group.name == name
    assert len(subgroup.elements) == len(subgroup.states) == group(name).order


def test_a_large_group() -> None:
    (subgroup,) = subgroups_of(regex_dfa("(a{2000})*"))
    assert (subgroup.group.name, subgroup.group.derived_orders) == ("Z2000", (2000, 1))


def test_the_table_must_fit() -> None:
    with pytest.raises(ValueError, match="is no table of 2 elements, 1 states"):
        MonoidSubgroup(0, (0,), np.array([0, 1]), ListedGroup(np.array([[0]])))
