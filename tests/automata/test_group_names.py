"""Names of groups, for groups that are known by their tables."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from eigentrack.automata import Group, group
from eigentrack.automata.group_names import group_name


def order_of(g: Group, x: int) -> int:
    power, n = x, 1
    while power != 0:
        power, n = g.table[power][x], n + 1
    return n


def named(g: Group) -> str:
    abelian = all(g.table[x][y] == g.table[y][x] for x, y in product(range(g.order), repeat=2))
    return group_name(Counter(order_of(g, x) for x in range(g.order)), abelian)


@pytest.mark.parametrize(
    "name", ["Z2", "Z7", "Z60", "S3", "S4", "S5", "A4", "A5", "D4", "D5", "D6", "D12", "Q8", "Z2xZ2xZ2", "Z3xZ9"]
)
def test_known_names(name: str) -> None:
    assert named(group(name)) == name


@pytest.mark.parametrize(
    ("product_name", "canonical"),
    [
        ("Z1", "trivial"),
        ("Z2xZ3", "Z6"),
        ("Z4xZ6", "Z2xZ12"),
        ("Z2xZ4xZ3xZ5", "Z2xZ60"),
        ("D3", "S3"),
        ("S3xZ2", "D6"),
        ("S3xZ3", "group of order 18"),
        ("S3xZ4", "group of order 24"),
        ("A4xZ2", "group of order 24"),
        ("A5xZ2", "group of order 120"),
        ("Q8xZ2", "group of order 16"),
        ("D4xZ2", "group of order 16"),
    ],
)
def test_equal_groups_have_equal_names_and_others_none(product_name: str, canonical: str) -> None:
    assert named(group(product_name)) == canonical
