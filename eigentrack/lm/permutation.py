"""A permutation of 0..size-1 as a function: no array of all numbers is ever shuffled or stored.

A Feistel network permutes the numbers of 2h bits, 4^h ≥ size: (left, right) → (right, left ⊕ mix(right + key)) in each round.
A result that is not below `size` goes through again until it is (cycle walking), which keeps it a permutation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigentrack.tasks.counter_random import derived_seed

ROUNDS = 6
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # those of SplitMix64


def permuted(numbers: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Where the permutation that `seed` names takes the numbers, each at least 0 and below `size`."""
    half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    keys = [np.uint64(derived_seed(seed, f"round {number}")) for number in range(ROUNDS)]
    result = numbers.astype(np.uint64)
    outside = np.ones(result.shape, bool)
    while outside.any():
        result[outside] = _network(result[outside], half_bits, keys)
        outside = result >= size
    return result.astype(np.int64)


def _network(x: NDArray[np.uint64], half_bits: np.uint64, keys: list[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = x >> half_bits, x & mask
    for key in keys:
        left, right = right, left ^ (_mix(right + key) & mask)
    return (left << half_bits) | right


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIERS[0]
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIERS[1]
    return x ^ (x >> np.uint64(31))
