"""Finite groups by their multiplication tables. Element 0 is always the identity; x·y means x first, then y.

The letters of a group's word problem are elements of the group; a word is accepted if its product is the identity.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations

from eigentrack.automata.dfa import DFA, minimal

LARGEST = 5040  # the most elements, those of S7: its table has 25 million entries
KINDS = "write S5, A5, Z60, D4, Q8, or a product such as Z2xZ3"

Permutation = tuple[int, ...]  # the image of every point


@dataclass(frozen=True)
class Group:
    """A finite group with its multiplication table, whose elements are also permutations of points."""

    name: str
    names: tuple[str, ...]  # the name of each element: the images of the points
    table: tuple[tuple[int, ...], ...]  # [x][y] → x·y
    permutations: tuple[Permutation, ...]  # the permutation of each element, by which it moves the points
    generators: tuple[int, ...]  # elements whose products are the whole group

    @property
    def order(self) -> int:
        return len(self.names)

    @cached_property
    def moved(self) -> tuple[int, ...]:
        """The number of points that each element moves."""
        return tuple(sum(image != point for point, image in enumerate(element)) for element in self.permutations)

    def subset(self, kind: str) -> tuple[int, ...]:
        """Return the elements of a kind: all, swaps (move at most 2 points), upto3 (at most 3), generators (and identity)."""
        chosen = {
            "all": lambda g: True,
            "swaps": lambda g: self.moved[g] <= 2,
            "upto3": lambda g: self.moved[g] <= 3,
            "generators": lambda g: g == 0 or g in self.generators,
        }
        if kind not in chosen:
            raise ValueError(f"subset {kind!r} is not known; there are {', '.join(chosen)}")
        letters = tuple(g for g in range(self.order) if chosen[kind](g))
        if len(letters) == 1 < self.order:
            raise ValueError(f"{self.name} has no elements for the letters {kind!r}: choose all or generators")
        return letters


@cache
def group(name: str) -> Group:
    """Return the group called `name`: S5, A5, Z60, D4 (8 elements), Q8 and their kind, or a direct product such as Z2xZ3."""
    parts = name.split("x")
    if not all(parts):
        raise ValueError(f"group {name!r} is not known: {KINDS}")
    factors = [_simple_group(part) for part in parts]
    product = factors[0]
    for factor in factors[1:]:
        product = _direct_product(product, factor)
    return product


def _simple_group(name: str) -> Group:
    match = re.fullmatch(r"([SAZD])([1-9]\d*)|(Q8)", name)
    if match is None:
        raise ValueError(f"group {name!r} is not known: {KINDS}")
    if match[3]:
        return _generated(name, _quaternion_generators())
    family, n = match[1], int(match[2])
    order = {"S": math.factorial(min(n, 20)), "A": math.factorial(min(n, 20)) // 2, "Z": n, "D": 2 * n}[family]
    if order > LARGEST:
        raise ValueError(f"group {name} has more than {LARGEST} elements: choose a smaller one")
    if family == "S":
        return _permutation_group(name, sorted(permutations(range(n))), _swaps_of_neighbours(n))
    if family == "A":
        even = [p for p in sorted(permutations(range(n))) if _is_even(p)]
        return _permutation_group(name, even, [_cycle(n, 0, 1, k) for k in range(2, n)])
    if family == "Z":
        rows = tuple(tuple((x + y) % n for y in range(n)) for x in range(n))
        turns = tuple(" ".join(map(str, row)) for row in rows)
        return Group(name, turns, rows, rows, (1,) if n > 1 else ())
    turn = tuple((point + 1) % n for point in range(n))
    if n < 3:
        raise ValueError(f"group {name}: a dihedral group needs a polygon of at least 3 corners")
    return _generated(name, [turn, tuple(-point % n for point in range(n))])


def _permutation_group(name: str, elements: Sequence[Permutation], generators: Sequence[Permutation]) -> Group:
    number = {element: g for g, element in enumerate(elements)}  # the identity sorts first
    times = [[number[_then(element, generator)] for generator in generators] for element in elements]
    found = {0: (0, 0)}  # element → (the element before it, the generator that leads from there)
    for element in (queue := [0]):  # the loop appends to the queue
        for g, product in enumerate(times[element]):
            if product not in found:
                found[product] = element, g
                queue.append(product)
    table = tuple(_row(x, queue, found, times) for x in range(len(elements)))
    names = tuple(" ".join(map(str, element)) for element in elements)
    return Group(name, names, table, tuple(elements), tuple(number[generator] for generator in generators))


def _row(x: int, order: Sequence[int], found: dict[int, tuple[int, int]], times: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return x·y for every y: with y = before·generator, it is (x·before)·generator."""
    row = [x] * len(order)
    for y in order[1:]:
        before, generator = found[y]
        row[y] = times[row[before]][generator]
    return tuple(row)


def _generated(name: str, generators: Sequence[Permutation]) -> Group:
    """Return the group of all products of the generators, numbered in the order of a breadth-first search."""
    identity = tuple(range(len(generators[0])))
    found = {identity}
    for element in (queue := [identity]):  # the loop appends to the queue
        for product in (_then(element, generator) for generator in generators):
            if product not in found:
                found.add(product)
                queue.append(product)
    return _permutation_group(name, queue, [g for g in generators if g != identity])


def _direct_product(left: Group, right: Group) -> Group:
    if left.order * right.order > LARGEST:
        raise ValueError(f"group {left.name}x{right.name} has more than {LARGEST} elements: choose a smaller one")
    pairs = [(x, y) for x in range(left.order) for y in range(right.order)]
    number = {pair: g for g, pair in enumerate(pairs)}
    table = tuple(tuple(number[left.table[a][c], right.table[b][d]] for c, d in pairs) for a, b in pairs)
    generators = [number[x, 0] for x in left.generators] + [number[0, y] for y in right.generators]
    return Group(
        f"{left.name}x{right.name}",
        tuple(f"{left.names[x]} | {right.names[y]}" for x, y in pairs),
        table,
        tuple(
            (*left.permutations[x], *(len(left.permutations[x]) + image for image in right.permutations[y])) for x, y in pairs
        ),
        tuple(generators),
    )


def _then(x: Permutation, y: Permutation) -> Permutation:
    return tuple(y[image] for image in x)


def _is_even(p: Permutation) -> bool:
    return sum(p[i] > p[j] for j in range(len(p)) for i in range(j)) % 2 == 0


def _cycle(n: int, *points: int) -> Permutation:
    images = list(range(n))
    for point, image in zip(points, (*points[1:], points[0]), strict=True):
        images[point] = image
    return tuple(images)


def _swaps_of_neighbours(n: int) -> list[Permutation]:
    return [_cycle(n, k, k + 1) for k in range(n - 1)]


def _quaternion_generators() -> list[Permutation]:
    """Return the permutations of 1, i, j, k, -1, -i, -j, -k by multiplication with i and with j from the right."""
    # [x][y] → (sign, unit) of the product x·y, where the units 1, i, j, k have the numbers 0 to 3
    products = [
        [(1, 0), (1, 1), (1, 2), (1, 3)],
        [(1, 1), (-1, 0), (1, 3), (-1, 2)],
        [(1, 2), (-1, 3), (-1, 0), (1, 1)],
        [(1, 3), (1, 2), (-1, 1), (-1, 0)],
    ]

    def times(unit: int) -> Permutation:
        signed = [(sign * s, u) for sign in (1, -1) for s, u in (products[x][unit] for x in range(4))]
        return tuple(u if s > 0 else u + 4 for s, u in signed)

    return [times(1), times(2)]


def word_problem_dfa(name: str, subset: str = "all") -> DFA:
    """Return the minimal DFA of a group's word problem; its states are the products so far.

    `name` is a group such as S5, A5, Z60 or Z2xZ3; `subset` chooses the letters: all, swaps, upto3 or generators
    (see `Group.subset`).
    """
    chosen = group(name)
    letters = chosen.subset(subset)
    rows = tuple(tuple(row[g] for g in letters) for row in chosen.table)
    return minimal(DFA(tuple(chosen.names[g] for g in letters), rows, frozenset({0})))
