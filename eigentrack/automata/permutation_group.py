"""Permutation groups by generators: ⟨g1, g2, …⟩ on the points 0..n-1, with their order, name and series, computed by sympy.

The length of a group is that of the shortest series G = G_0 ⊵ G_1 ⊵ … ⊵ 1 whose factors are abelian (`abelian_length`), or
products of Z2 (`two_length`). The commutator subgroup is the smallest normal subgroup with an abelian factor, and Φ = ⟨squares⟩
the smallest whose factor is a product of Z2. Repeating either therefore gives a shortest series: the derived series, and
G ⊵ Φ(G) ⊵ Φ(Φ(G)) ⊵ …
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from eigentrack.automata.congruences import orbits
from eigentrack.automata.group_names import group_name
from eigentrack.automata.groups import Permutation

if TYPE_CHECKING:
    from sympy.combinatorics import PermutationGroup as SympyGroup  # type: ignore[import-untyped]
from eigentrack.automata.letter_maps import cycle_lengths

LARGEST_TABLE = 10**6  # the most elements times points that are listed to find a name; S_n and A_n on n points need no list


@dataclass(frozen=True)
class PermutationGroup:
    """A permutation group given by generators."""

    points: int  # number of points
    generators: tuple[Permutation, ...]  # [i][point] → the image of the point; empty for the trivial group

    def __post_init__(self) -> None:
        for generator in self.generators:
            if sorted(generator) != list(range(self.points)):
                raise ValueError(f"{generator} is no permutation of the points 0..{self.points - 1}")

    @cached_property
    def order(self) -> int:
        return int(self._sympy.order()) if self.generators else 1

    @property
    def is_two_group(self) -> bool:
        return self.order & (self.order - 1) == 0

    @cached_property
    def name(self) -> str:
        """The name of the group: trivial, Z6, S3, A5, D4, Q8, S3xZ3 (on two orbits), or "group of order n"."""
        if self.order == 1:
            return "trivial"
        parts = self._on_orbits()
        if len(parts) > 1 and math.prod(part.order for part in parts) == self.order:
            return "x".join(part.name for part in parts)
        moved = sum(part.points for part in parts)
        for family, order in (("S", math.factorial(moved)), ("A", math.factorial(moved) // 2)):
            if moved > 3 and self.order == order:
                return f"{family}{moved}"
        if self.order * self.points > LARGEST_TABLE:
            return f"group of order {self.order}"
        orders = Counter(math.lcm(*cycle_lengths(element)) for element in self._sympy.generate(af=True))
        return group_name(orders, bool(self._sympy.is_abelian))

    @cached_property
    def _sympy(self) -> SympyGroup:
        from sympy.combinatorics import Permutation as SympyPermutation
        from sympy.combinatorics import PermutationGroup as SympyGroup

        return SympyGroup([SympyPermutation(list(images)) for images in self.generators])

    def _on_orbits(self) -> list[PermutationGroup]:
        """Return the actions of the group on its orbits of more than one point."""
        orbit = orbits(self.generators, self.points)
        parts = []
        for number in range(max(orbit) + 1):
            members = [point for point in range(self.points) if orbit[point] == number]
            if len(members) > 1:
                restricted = {tuple(members.index(images[point]) for point in members) for images in self.generators}
                parts.append(PermutationGroup(len(members), tuple(sorted(restricted))))
        return parts


def abelian_length(generators: Sequence[Permutation]) -> int:
    """Return the length of the shortest series with abelian factors; raise ValueError if the group is not solvable."""
    series = _sympy_group(generators).derived_series()
    if series[-1].order() > 1:
        raise ValueError(f"a group of order {series[0].order()} is not solvable: no series has abelian factors only")
    return len(series) - 1


def two_length(generators: Sequence[Permutation]) -> int:
    """Return the length of the shortest series with products of Z2 as factors; raise ValueError if the group is no 2-group."""
    group = _sympy_group(generators)
    if group.order() & (group.order() - 1):
        raise ValueError(f"a group of order {group.order()} is no 2-group: no series has products of Z2 as factors only")
    length = 0
    while group.order() > 1:
        # in a 2-group the squares and commutators of the generators, with their conjugates, generate all squares
        squares = [g * g for g in group.generators]
        commutators = [~g * ~h * g * h for g in group.generators for h in group.generators]
        group, length = group.normal_closure([*squares, *commutators]), length + 1
    return length


def _sympy_group(generators: Sequence[Permutation]) -> SympyGroup:
    """Return the group as a sympy object without redundant generators, since sympy is slow with many of them.

    Each generator that is kept at least doubles the group.
    """
    from sympy.combinatorics import Permutation as SympyPermutation
    from sympy.combinatorics import PermutationGroup as SympyGroup

    kept = [SympyPermutation(len(generators[0]) - 1)]
    for images in generators:
        if not SympyGroup(kept).contains(permutation := SympyPermutation(list(images))):
            kept.append(permutation)
    return SympyGroup(kept)
