"""Maximal subgroups of a transition monoid: the H-class of an idempotent e, a group with identity e that permutes e's image.

All idempotents of a D-class give isomorphic groups, so one idempotent per regular D-class is enough.

A regular language is in AC⁰ if no φ(Σᵗ), t ≥ 1, contains a nontrivial group (Barrington, Compton, Straubing & Thérien 1992),
where φ(Σᵗ) are the elements that the words of length t induce. Let H be the group of e, g an element of H, and d the greatest
common divisor of the lengths of closed walks in the R-class of e. The lengths of the walks from e to g within that R-class
agree modulo d, and every large enough length of that residue occurs. So e and g have words of equal length if and only if d
divides the length of a walk from e to g. Such g form a subgroup of H, some φ(Σᵗ) contains it, and all idempotents of a D-class
give isomorphic ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigentrack.automata.green import GreenRelations
from eigentrack.automata.listed_group import ListedGroup
from eigentrack.automata.transition_monoid import Integers, TransitionMonoid


@dataclass(frozen=True, eq=False)
class MonoidSubgroup:
    """A group inside a transition monoid, which permutes the image of its idempotent."""

    idempotent: int  # the identity of the group, as an element of the monoid
    states: tuple[int, ...]  # the image of the idempotent: the points of the group
    elements: Integers  # [order]: the element of the monoid that each element of the group is
    group: ListedGroup

    def __post_init__(self) -> None:
        if self.group.permutations.shape != (len(self.elements), len(self.states)):
            raise ValueError(
                f"{self.group.permutations.shape} is no table of {len(self.elements)} elements, {len(self.states)} states"
            )


def maximal_subgroups(monoid: TransitionMonoid, green: GreenRelations) -> tuple[MonoidSubgroup, ...]:
    """Return the group of the first idempotent of each regular D-class, trivial groups included.

    `monoid` is the transition monoid and `green` are its Green's relations.
    """
    _, first = np.unique(green.d[green.idempotents], return_index=True)
    by_class = np.argsort(green.h, kind="stable")
    starts = np.searchsorted(green.h[by_class], np.arange(int(green.h.max()) + 2))
    subgroups = []
    for e in green.idempotents[first].tolist():
        label = green.h[e]
        members = by_class[starts[label] : starts[label + 1]]
        states = np.unique(monoid.elements[e])
        permutations = np.searchsorted(states, monoid.elements[np.ix_(members, states)]).astype(monoid.elements.dtype)
        subgroups.append(MonoidSubgroup(e, tuple(states.tolist()), members, ListedGroup(permutations)))
    return tuple(subgroups)


def equal_length_subgroup(monoid: TransitionMonoid, green: GreenRelations, subgroup: MonoidSubgroup) -> MonoidSubgroup:
    """Return the subgroup of a maximal subgroup whose elements have a word as long as some word of the idempotent."""
    e = subgroup.idempotent
    inside = green.r == green.r[e]
    distance = np.full(monoid.size, -1)
    frontier, steps = np.array([e]), 0
    while frontier.size:
        distance[frontier] = steps
        reached = np.unique(monoid.right[frontier])
        frontier, steps = reached[inside[reached] & (distance[reached] < 0)], steps + 1
    members = np.flatnonzero(inside)
    targets = monoid.right[members]
    detours = (distance[members, None] + 1 - distance[targets])[inside[targets]]
    divisor = int(np.gcd.reduce(detours, initial=0)) or 1  # the gcd is 0 without a closed walk; the group is then trivial
    chosen = distance[subgroup.elements] % divisor == 0
    return MonoidSubgroup(e, subgroup.states, subgroup.elements[chosen], ListedGroup(subgroup.group.permutations[chosen]))
