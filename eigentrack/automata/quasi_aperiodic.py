"""Groups among words of equal length: a regular language is in AC⁰ if no φ(Σᵗ), t ≥ 1, contains a nontrivial group.

(Barrington, Compton, Straubing & Thérien 1992.) φ(Σᵗ) are the elements that the words of length t induce. Let e be an
idempotent and H its group. Walks from e to g ∈ H in the R-class of e have lengths that agree modulo d, the greatest common
divisor of the closed walks there, and every length of that kind occurs if it is large enough. So e and g have words of equal
length just if a walk from e to g has a length that d divides. Such g form a subgroup of H, and some φ(Σᵗ) contains it. All
idempotents of a D-class give the same subgroup.
"""

from __future__ import annotations

import numpy as np

from eigentrack.automata.green import GreenRelations
from eigentrack.automata.listed_group import ListedGroup
from eigentrack.automata.maximal_subgroups import MonoidSubgroup
from eigentrack.automata.transition_monoid import TransitionMonoid


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
