"""Groups among words of equal length: against the sets φ(Σᵗ) themselves, one t after the other until they repeat."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from eigentrack.automata import DFA, green_relations, language, maximal_subgroups, transition_monoid
from eigentrack.automata.quasi_aperiodic import equal_length_subgroup
from tests.automata.multiplication import multiplication
from tests.automata.random_automata import automata


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
