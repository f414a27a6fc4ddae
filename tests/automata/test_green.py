"""Green's relations against their definition by ideals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from eigentrack.automata import DFA, green_relations, language, transition_monoid
from tests.automata.multiplication import multiplication
from tests.automata.random_automata import automata


def numbered(labels: Iterable[Hashable]) -> list[int]:
    number: dict[Hashable, int] = {}
    return [number.setdefault(label, len(number)) for label in labels]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(automata(most_states=4, most_letters=2))
def test_classes_are_those_of_equal_ideals(dfa: DFA) -> None:
    monoid = transition_monoid(dfa)
    assume(monoid.size <= 80)
    green, table, everything = green_relations(monoid), multiplication(monoid), range(monoid.size)
    right = [frozenset(table[x]) for x in everything]
    left = [frozenset(table[y][x] for y in everything) for x in everything]
    both = [frozenset(table[y][z] for z in right[x] for y in everything) for x in everything]
    assert green.r.tolist() == numbered(right)
    assert green.l.tolist() == numbered(left)
    assert green.h.tolist() == numbered(zip(right, left, strict=True))
    assert green.d.tolist() == numbered(both)
    idempotents = [x for x in everything if table[x][x] == x]
    assert green.idempotents.tolist() == idempotents
    # a D-class is regular if its elements have inverses: x·y·x = x
    regular = {d for x, d in enumerate(green.d.tolist()) if any(table[table[x][y]][x] == x for y in everything)}
    assert set(green.regular.tolist()) == regular


def test_all_maps_of_five_points() -> None:
    """R-classes are kernels, L-classes are images, D-classes are ranks."""
    monoid = transition_monoid(language("t5"))
    green = green_relations(monoid)
    assert [len(np.unique(labels)) for labels in (green.r, green.l, green.d)] == [52, 31, 5]
    assert len(green.regular) == 5
    assert len(green.idempotents) == 196
    ranks = [len(set(row)) for row in monoid.elements.tolist()]
    assert green.d.tolist() == numbered(ranks)


def test_brackets_have_a_class_for_each_depth() -> None:
    """The empty word, k ≤ 4 matched brackets around, and the zero: of 56 elements, D-classes of 1, 5², 4², 3² … and 1."""
    green = green_relations(transition_monoid(language("d4")))
    assert sorted(np.bincount(green.d).tolist(), reverse=True) == [25, 16, 9, 4, 1, 1]
    assert len(green.regular) == 6
