"""A permutation group G as the list of all its elements, with its order, its name, and its derived series G ⊇ [G,G] ⊇ …

An element is a row of images, and has a number; x·y means x first, then y. The images of a few points, the base, already
identify an element, so products are computed on those points only. A subgroup is given by a few generators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.group_names import group_name
from eigentrack.automata.transition_monoid import Integers, row_keys


@dataclass(frozen=True, eq=False)
class ListedGroup:
    """A permutation group given by the list of its elements."""

    permutations: Integers  # [order, points]: [g][p] is the image of point p under element g

    @property
    def order(self) -> int:
        return len(self.permutations)

    @property
    def is_two_group(self) -> bool:
        return self.order & (self.order - 1) == 0

    @property
    def abelian(self) -> bool:
        return self._commute(self.generators)

    @property
    def solvable(self) -> bool:
        return self.derived_orders[-1] == 1

    @cached_property
    def name(self) -> str:
        return group_name(Counter(self.element_orders.tolist()), self.abelian)

    @cached_property
    def element_orders(self) -> Integers:
        """The order of every element, [order]: a power that fixes every point of the base is the identity."""
        orders = np.ones(self.order, dtype=np.int64)
        for point in self._base:
            orders = np.lcm(orders, _cycle_lengths(self.permutations, point))
        return orders

    @cached_property
    def generators(self) -> tuple[int, ...]:
        """A generating set: the elements, in their order, that the ones chosen before do not generate."""
        return self._independent(range(self.order))

    @cached_property
    def derived_orders(self) -> tuple[int, ...]:
        """The orders of the groups of the derived series, up to the last that differs from the one before."""
        orders, generators = [self.order], self.generators
        while True:
            generators = self._commutator_subgroup(generators)
            order = int(self._generated(generators).sum())
            if order == orders[-1]:
                return tuple(orders)
            orders.append(order)

    @cached_property
    def _base(self) -> Integers:
        base: list[int] = []
        known = np.zeros(self.order, dtype=np.int64)  # elements that agree on the base so far have equal numbers
        for point in range(self.permutations.shape[1]):
            if (classes := int(known.max()) + 1) == self.order:
                break
            values, finer = np.unique(known * self.permutations.shape[1] + self.permutations[:, point], return_inverse=True)
            if len(values) > classes:
                base.append(point)
                known = finer
        return np.array(base or [0], dtype=self.permutations.dtype)

    @cached_property
    def _number(self) -> dict[bytes, int]:
        """The number of every element, keyed by the images of the base."""
        return {key: g for g, key in enumerate(row_keys(self.permutations[:, self._base]))}

    def _numbers(self, base_images: Integers) -> Integers:
        return np.array([self._number[key] for key in row_keys(base_images)])

    def _products(self, words: Iterable[Sequence[Integers]]) -> list[int]:
        """Return the number of the element that each sequence of rows multiplies to."""
        found = []
        for first, *others in words:
            images = first[self._base]
            for row in others:
                images = row[images]
            found.append(images.astype(self.permutations.dtype))
        return self._numbers(np.array(found)).tolist() if found else []

    def _generated(self, generators: Iterable[int]) -> NDArray[np.bool_]:
        """Return for each element whether it is a product of the generators: [order]."""
        identity = self._numbers(self._base[None])
        rows = [self.permutations[g] for g in generators]
        inside = np.zeros(self.order, dtype=bool)
        inside[identity] = True
        frontier = identity if rows else identity[:0]
        while frontier.size:
            images = self.permutations[np.ix_(frontier, self._base)]
            reached = np.unique(self._numbers(np.concatenate([row[images] for row in rows])))
            frontier = reached[~inside[reached]]
            inside[frontier] = True
        return inside

    def _independent(self, elements: Iterable[int]) -> tuple[int, ...]:
        """Return the elements that the ones chosen before them do not generate."""
        chosen: list[int] = []
        inside = self._generated(chosen)
        for g in elements:
            if not inside[g]:
                chosen.append(g)
                inside = self._generated(chosen)
        return tuple(chosen)

    def _commute(self, generators: Sequence[int]) -> bool:
        rows = [self.permutations[g] for g in generators]
        return all(np.array_equal(x[y], y[x]) for x, y in product(rows, rows))

    def _commutator_subgroup(self, generators: Sequence[int]) -> tuple[int, ...]:
        """Return generators of [H, H], where H is the subgroup that `generators` generate.

        These are the commutators x⁻¹y⁻¹xy of the generators and their conjugates h⁻¹xh under H.
        """
        rows = [self.permutations[g] for g in generators]
        inverses = [np.argsort(row) for row in rows]
        pairs = product(range(len(rows)), repeat=2)
        found = self._independent(self._products((inverses[i], inverses[j], rows[i], rows[j]) for i, j in pairs))
        while True:
            conjugates = self._products(
                (inverse, self.permutations[x], row) for x in found for row, inverse in zip(rows, inverses, strict=True)
            )
            if (more := self._independent([*found, *conjugates])) == found:
                return found
            found = more


def _cycle_lengths(permutations: Integers, point: int) -> Integers:
    """Return the length of the cycle through the point in each permutation: [permutations]."""
    lengths = np.ones(len(permutations), dtype=np.int64)
    rows, place = np.arange(len(permutations)), permutations[:, point]
    while (elsewhere := place != point).any():
        rows = rows[elsewhere]
        lengths[rows] += 1
        place = permutations[rows, place[elsewhere]]
    return lengths
