"""Maximal subgroups: the H-class of an idempotent e is a group with e as its one, and acts on the image of e by permutations.

All idempotents of a D-class give the same group, so one for each regular D-class says everything.

A regular language is in AC⁰ if no φ(Σᵗ), t ≥ 1, contains a nontrivial group (Barrington, Compton, Straubing & Thérien 1992),
where φ(Σᵗ) are the elements that the words of length t induce. Walks from e to g in its group H, within the R-class of e, have
lengths that agree modulo d, the greatest common divisor of the closed walks there, and every length of that kind occurs if it
is large enough. So e and g have words of equal length just if a walk from e to g has a length that d divides. Such g form a
subgroup of H, some φ(Σᵗ) contains it, and all idempotents of a D-class give the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigentrack.automata.green import GreenRelations
from eigentrack.automata.listed_group import ListedGroup
from eigentrack.automata.transition_monoid import Integers, TransitionMonoid


@dataclass(frozen=True, eq=False)
class MonoidSubgroup:
    """Element g of the `group` is number `elements[g]` of the monoid; its points are the `states` in the idempotent's image."""

    idempotent: int
    states: tuple[int, ...]
    elements: Integers  # [order]
    group: ListedGroup

    def __post_init__(self) -> None:
        if self.group.permutations.shape != (len(self.elements), len(self.states)):
            raise ValueError(
                f"{self.group.permutations.shape} is no table of {len(self.elements)} elements, {len(self.states)} states"
            )


def maximal_subgroups(monoid: TransitionMonoid, green: GreenRelations) -> tuple[MonoidSubgroup, ...]:
    """One for each regular D-class, of its first idempotent; the trivial ones too."""
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
    """The elements of a maximal subgroup that have words as long as some word of its idempotent."""
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
    divisor = int(np.gcd.reduce(detours, initial=0)) or 1  # 0: no closed walk, so the identity alone
    chosen = distance[subgroup.elements] % divisor == 0
    return MonoidSubgroup(e, subgroup.states, subgroup.elements[chosen], ListedGroup(subgroup.group.permutations[chosen]))
