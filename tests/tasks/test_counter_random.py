"""Random numbers that are a pure function of (seed, step, stream, position)."""

from __future__ import annotations

import pytest
import torch

from eigentrack.tasks.counter_random import random_integers

MASK = 2**64 - 1


def splitmix64(x: int) -> int:
    """The published finaliser, in Python's own integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def test_it_is_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    key = 0
    for part in (5, 7, 2):  # seed, step, stream
        key = splitmix64((key + part + golden) & MASK)
    expected = [(splitmix64((counter * golden + key) & MASK) >> 33) * 1000 >> 31 for counter in range(50)]
    assert random_integers(1000, (50,), seed=5, step=7, stream=2).tolist() == expected


def test_known_values_of_splitmix64() -> None:
    """The first outputs of the generator from state 1234567, as published with it."""
    golden, state, outputs = 0x9E3779B97F4A7C15, 1234567, []
    for _ in range(3):
        state = (state + golden) & MASK
        outputs.append(splitmix64(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_same_arguments_same_numbers_and_others_differ() -> None:
    first = random_integers(2**31, (64,), seed=1, step=2)
    assert torch.equal(first, random_integers(2**31, (64,), seed=1, step=2))
    others = [{"seed": 2, "step": 2}, {"seed": 1, "step": 3}, {"seed": 1, "step": 2, "stream": 1}]
    for other in others:
        assert (first == random_integers(2**31, (64,), **other)).sum() == 0


@pytest.mark.parametrize("seed", [0, 7, 2**63 + 11, 2**64 - 1])
@pytest.mark.parametrize("step", [0, 1, 10**9])
def test_a_step_that_lies_on_the_device_draws_the_same_numbers(seed: int, step: int) -> None:
    for stream in (0, 3):
        known = random_integers(2**31, (40,), seed=seed, step=step, stream=stream)
        assert torch.equal(random_integers(2**31, (40,), seed=seed, step=torch.tensor(step), stream=stream), known)
        steps = torch.tensor([step + 3, step])
        assert torch.equal(random_integers(2**31, (80,), seed=seed, step=steps, stream=stream)[40:], known)


def test_a_longer_draw_starts_with_the_shorter_one() -> None:
    assert torch.equal(random_integers(9, (40,), seed=0, step=0)[:10], random_integers(9, (10,), seed=0, step=0))


@pytest.mark.parametrize("high", [1, 2, 3, 7, 60])
def test_numbers_are_uniform(high: int) -> None:
    draws, count = 200_000, torch.zeros(high)
    numbers = random_integers(high, (draws,), seed=3, step=0)
    count = torch.bincount(numbers, minlength=high).double()
    assert len(count) == high
    chi_square = ((count - draws / high) ** 2 / (draws / high)).sum()
    assert chi_square < high - 1 + 5 * (2 * high) ** 0.5  # five standard deviations


def test_neighbours_are_independent() -> None:
    bits = random_integers(2, (1000, 200), seed=0, step=0).double() - 0.5
    for left, right in ((bits[:, :-1], bits[:, 1:]), (bits[:-1], bits[1:])):
        correlation = (left * right).mean() / 0.25
        assert abs(correlation) < 5 / left.numel() ** 0.5


def test_bad_bounds_are_named() -> None:
    with pytest.raises(ValueError, match="high=0 must lie between 1 and"):
        random_integers(0, (3,), seed=0, step=0)
