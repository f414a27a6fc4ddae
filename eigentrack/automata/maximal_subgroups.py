"""Maximal subgroups: the H-class of an idempotent e is a group with e as its one, and acts on the image of e by permutations.

All idempotents of a D-class give the same group, so one for each regular D-class says everything.
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
