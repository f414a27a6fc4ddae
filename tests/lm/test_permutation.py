"""A permutation by formula: one to one for every size, and as mixed as a shuffle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.lm.batches import permuted


@given(st.integers(1, 700), st.integers(0, 2**64 - 1))
def test_it_is_a_permutation(size: int, seed: int) -> None:
    assert sorted(permuted(np.arange(size), size, seed).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [1, 2, 2**20, 2**31 + 11, 2**45 + 3])
def test_large_sizes_stay_in_range_and_apart(size: int) -> None:
    numbers = np.unique(np.linspace(0, size - 1, 10_000).astype(np.int64))
    places = permuted(numbers, size, 5)
    assert places.min() >= 0
    assert places.max() < size
    assert len(np.unique(places)) == len(numbers)


def test_a_part_is_permuted_as_the_whole() -> None:
    whole = permuted(np.arange(1000), 1000, 3)
    assert permuted(np.array([7, 999, 0]), 1000, 3).tolist() == whole[[7, 999, 0]].tolist()


def test_seeds_give_different_orders_that_look_shuffled() -> None:
    size, orders = 5000, []
    for seed in range(8):
        order = permuted(np.arange(size), size, seed)
        orders.append(order)
        # of a random order: correlation of a number with its place, and of neighbours, within five standard deviations
        assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 5 / size**0.5
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 5 / size**0.5
        assert (np.abs(np.diff(order)) == 1).sum() < 2 + 5 * 2**0.5  # two neighbours stay neighbours by chance
    for first in range(8):
        for second in range(first):
            assert (orders[first] == orders[second]).sum() < 1 + 6  # one agrees by chance
