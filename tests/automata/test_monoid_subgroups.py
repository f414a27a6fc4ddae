"""Maximal subgroups against the H-classes of the multiplication table, and against groups that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from eigentrack.automata import DFA, green_relations, group, language, maximal_subgroups, regex_dfa, transition_monoid
from eigentrack.automata.groups import word_problem_dfa
from eigentrack.automata.listed_group import ListedGroup
from eigentrack.automata.monoid_subgroups import MonoidSubgroup, equal_length_subgroup
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


def induced_by_length(dfa: DFA) -> list[frozenset[int]]:
    """φ(Σ), φ(Σ²), … until one occurs again."""
    right = transition_monoid(dfa).right
    sets = [frozenset(right[0].tolist())]
    while (following := frozenset(right[list(sets[-1])].ravel().tolist())) not in sets:
        sets.append(following)
    return sets


def some_length_contains_a_group(dfa: DFA) -> bool:
    table = multiplication(transition_monoid(dfa))
    for elements in induced_by_length(dfa):
        for g in elements:
            powers = [g]
            while (following := table[powers[-1]][g]) not in powers:
                powers.append(following)
            if following == g and len(powers) > 1 and elements.issuperset(powers):  # the cyclic group of g
                return True
    return False


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(automata(most_states=5, most_letters=2))
def test_it_is_what_the_sets_say(dfa: DFA) -> None:
    monoid = transition_monoid(dfa)
    assume(monoid.size <= 150)
    green = green_relations(monoid)
    found = [equal_length_subgroup(monoid, green, subgroup) for subgroup in maximal_subgroups(monoid, green)]
    assert any(subgroup.group.order > 1 for subgroup in found) == some_length_contains_a_group(dfa)


def test_the_elements_form_a_normal_subgroup_with_the_idempotent() -> None:
    """x ↦ 2x and x ↦ 2x+1 modulo 5 generate 20 maps; words of equal length differ by a shift."""
    monoid = transition_monoid(language("binary-mod5"))
    green = green_relations(monoid)
    (whole,) = maximal_subgroups(monoid, green)
    shifts = equal_length_subgroup(monoid, green, whole)
    assert (whole.group.order, shifts.group.order, shifts.group.name) == (20, 5, "Z5")
    rows = {tuple(row) for row in monoid.elements[shifts.elements].tolist()}
    values = {language("binary-mod5").run(format(n, "b")): n for n in range(5)}  # state → value
    for row in rows:
        assert len({(values[target] - values[state]) % 5 for state, target in enumerate(row)}) == 1


def test_a_language_of_lengths_has_no_such_group() -> None:
    for name in ("aa", "unary60", "even-length"):
        monoid = transition_monoid(language(name))
        green = green_relations(monoid)
        (whole,) = maximal_subgroups(monoid, green)
        assert whole.group.order == monoid.size
        assert np.array_equal(equal_length_subgroup(monoid, green, whole).elements, [0])
