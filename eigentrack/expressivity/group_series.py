"""How many abelian steps a group takes: the shortest series G = G_0 ⊵ G_1 ⊵ … ⊵ 1 whose factors are abelian, or products of Z2.

The commutator subgroup is the smallest one with an abelian factor, and Φ = ⟨squares⟩ the smallest one whose factor is a product
of Z2. Taking them again and again is therefore shortest: it gives the derived series, and G ⊵ Φ(G) ⊵ Φ(Φ(G)) ⊵ …
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eigentrack.automata.language_class import ContainedGroup
from eigentrack.automata.maps import Map

if TYPE_CHECKING:
    from sympy.combinatorics import PermutationGroup  # type: ignore[import-untyped]


def abelian_length(generators: Sequence[Map]) -> int:
    """Steps with abelian factors, of a solvable group."""
    series = _sympy_group(generators).derived_series()
    if series[-1].order() > 1:
        raise ValueError(f"a group of order {series[0].order()} is not solvable: no series has abelian factors only")
    return len(series) - 1


def two_length(generators: Sequence[Map]) -> int:
    """Steps whose factors are products of Z2, of a 2-group."""
    group = _sympy_group(generators)
    if group.order() & (group.order() - 1):
        raise ValueError(f"a group of order {group.order()} is no 2-group: no series has products of Z2 as factors only")
    length = 0
    while group.order() > 1:
        # of a 2-group, squares and commutators of generators suffice, with their conjugates
        squares = [g * g for g in group.generators]
        commutators = [~g * ~h * g * h for g in group.generators for h in group.generators]
        group, length = group.normal_closure([*squares, *commutators]), length + 1
    return length


def two_length_at_least(contained: ContainedGroup) -> int:
    """A lower bound from the name of a 2-group alone: 2^p elements in a cycle take p steps, no commuting takes two."""
    if not contained.abelian:
        return 2
    return max(int(order).bit_length() - 1 for order in re.findall(r"Z(\d+)", contained.name))


def _sympy_group(generators: Sequence[Map]) -> PermutationGroup:
    """With few generators, since sympy's algorithms take long with many: each one kept at least doubles the group."""
    from sympy.combinatorics import Permutation, PermutationGroup

    kept = [Permutation(len(generators[0]) - 1)]
    for images in generators:
        if not PermutationGroup(kept).contains(permutation := Permutation(list(images))):
            kept.append(permutation)
    return PermutationGroup(kept)
