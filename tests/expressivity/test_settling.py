"""On a repeated letter a diagonal stack settles, or cycles with a period that divides 2^L; in three float types."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.expressivity.settling import DiagonalLayer, Settling, State, diagonal_step, settling

FLOATS = [torch.float16, torch.bfloat16, torch.float32]
NOTHING = torch.zeros(1)


def scalar(gate: float, dtype: torch.dtype) -> DiagonalLayer:
    return DiagonalLayer(lambda x: torch.tensor([gate], dtype=dtype), lambda x: torch.zeros(1, dtype=dtype), lambda h, x: h)


@given(st.integers(0, 40), st.integers(1, 30))
def test_transient_and_period_of_a_known_orbit(tail: int, cycle: int) -> None:
    def step(state: State) -> State:
        n = int(state[0])
        return (torch.tensor(n + 1 if n + 1 < tail + cycle else tail),)

    assert settling(step, (torch.tensor(0),)) == Settling(tail, cycle)


@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_three_quarters_ends_in_a_cycle_of_two_subnormal_numbers(dtype: torch.dtype) -> None:
    step = diagonal_step([scalar(-0.75, dtype)], NOTHING)
    start: State = (torch.ones(1, dtype=dtype),)
    found = settling(step, start)
    assert found.period == 2
    state = start
    for _ in range(found.transient):
        state = step(state)
    assert 0 < abs(float(state[0])) < torch.finfo(dtype).tiny
    assert torch.equal(step(state)[0], -state[0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_three_quarters_never_reaches_zero_and_how_long_it_takes(dtype: torch.dtype) -> None:
    step = diagonal_step([scalar(0.75, dtype)], NOTHING)
    found = settling(step, (torch.ones(1, dtype=dtype),))
    assert found.period == 1
    state: State = (torch.ones(1, dtype=dtype),)
    for _ in range(found.transient):
        state = step(state)
    smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    assert float(state[0]) == 2 * smallest  # 1.5 times the smallest number rounds back to 2
    assert found.transient == pytest.approx(math.log(2 * smallest) / math.log(0.75), rel=0.05)


def random_stack(seed: int, depth: int, dtype: torch.dtype, low: float) -> tuple[list[DiagonalLayer], State]:
    """Gates and writes are looked up by which floats of the layer below exceed a level: any function of the input would do.

    Where a gate is ±1 nothing is written: the state would count for 2^24 steps in float32 before it stands still.
    """
    rng = torch.Generator().manual_seed(seed)
    width, layers = 3, []
    for _ in range(depth):
        gates = torch.tensor([low, 1.0, 0.0, low / 2, 0.75])[torch.randint(5, (8, width), generator=rng)]
        writes = torch.randint(-2, 3, (8, width), generator=rng) / 4 * (gates.abs() < 1)
        level = torch.rand(width, generator=rng) - 0.5
        layers.append(
            DiagonalLayer(
                lambda x, table=gates.to(dtype): table[int(x)],
                lambda x, table=writes.to(dtype): table[int(x)],
                lambda h, x, level=level.to(dtype): torch.sum((h > level) * torch.tensor([1, 2, 4])),
            )
        )
    return layers, tuple(torch.randn(width, generator=rng).to(dtype) for _ in range(depth))


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=st.integers(0, 10_000), depth=st.integers(1, 3))
@settings(deadline=None, max_examples=12)
def test_the_period_divides_two_to_the_depth(dtype: torch.dtype, seed: int, depth: int) -> None:
    layers, start = random_stack(seed, depth, dtype, low=-1.0)
    found = settling(diagonal_step(layers, torch.tensor(seed % 8)), start)
    assert 2**depth % found.period == 0


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=st.integers(0, 10_000), depth=st.integers(1, 3))
@settings(deadline=None, max_examples=12)
def test_the_period_is_one_if_no_gate_is_negative(dtype: torch.dtype, seed: int, depth: int) -> None:
    layers, start = random_stack(seed, depth, dtype, low=0.25)
    assert settling(diagonal_step(layers, torch.tensor(seed % 8)), start).period == 1


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_an_odometer_reaches_the_full_period(depth: int) -> None:
    """A layer flips when all those below have just come back to 1: it counts modulo 2^depth."""
    wheel = DiagonalLayer(
        lambda x: torch.where(x > 0, -torch.ones(1), torch.ones(1)), lambda x: torch.zeros(1), lambda h, x: torch.minimum(h, x)
    )
    start: State = tuple(torch.ones(1) for _ in range(depth))
    assert settling(diagonal_step([wheel] * depth, torch.ones(1)), start) == Settling(0, 2**depth)


def test_a_state_that_does_not_repeat_in_time_is_named() -> None:
    with pytest.raises(ValueError, match="has not repeated within limit=100 steps"):
        settling(lambda state: (state[0] + 1,), (torch.zeros(1),), limit=100)
    with pytest.raises(ValueError, match="holds NaN"):
        settling(lambda state: state, (torch.tensor([float("nan")]),))
