"""The models of finite precision: each against an independent definition, and where they part."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.expressivity.precision_models import (
    MODELS,
    Cycle,
    DiagonalLayer,
    LinearRNN,
    State,
    diagonal_step,
    find_cycle,
    first_difference,
    nearest,
    simulate,
)

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
IEEE = ["sequential", "flushed", "scan"]


def scalar(gate: Fraction, write: Fraction = Fraction(0), start: Fraction = Fraction(1)) -> LinearRNN:
    return LinearRNN({"a": ((gate,),)}, {"a": (write,)}, (start,))


def rational(matrix: np.ndarray) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(tuple(Fraction(float(entry)) for entry in row) for row in matrix)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@given(value=st.floats(-1e39, 1e39, allow_subnormal=True) | st.floats(-1e-5, 1e-5) | st.floats(-1e-40, 1e-40))
@settings(max_examples=300)
def test_nearest_is_what_the_hardware_rounds_to(dtype: torch.dtype, value: float) -> None:
    expected = float(torch.tensor(value, dtype=torch.float64).to(dtype))
    limit = torch.finfo(dtype).max
    assert float(nearest(Fraction(value), dtype)) == max(-limit, min(limit, expected))


@given(st.fractions(), st.fractions())
def test_nearest_in_double_precision_is_python_s_own(numerator: Fraction, denominator: Fraction) -> None:
    value = numerator / denominator if denominator else numerator
    assert nearest(value, torch.float64) == Fraction(float(value))


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=3, deadline=None)
def test_permutations_and_resets_are_the_same_in_all_models(dtype: torch.dtype, seed: int) -> None:
    rng = random.Random(seed)
    gates, writes = {}, {}
    for letter in "abc":
        images = rng.sample(range(4), 4)
        gates[letter] = tuple(tuple(Fraction(images[j] == i) for j in range(4)) for i in range(4))
        writes[letter] = (Fraction(0),) * 4
    gates["r"] = ((Fraction(0),) * 4,) * 4
    writes["r"] = (Fraction(0), Fraction(1), Fraction(0), Fraction(0))
    rnn = LinearRNN(gates, writes, (Fraction(1), Fraction(0), Fraction(0), Fraction(0)))
    word = rng.choices("abcabcr", k=30)
    assert all(first_difference(rnn, word, dtype, "exact", model) is None for model in MODELS)


def test_the_sequential_model_is_torch_s_own_loop() -> None:
    generator = np.random.default_rng(0)
    gate, write = generator.standard_normal((3, 3)) / 2, generator.standard_normal(3)
    rnn = LinearRNN({"a": rational(gate)}, {"a": rational(write[None])[0]}, (Fraction(1), Fraction(0), Fraction(-1)))
    state, states = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float16), []
    a, b = torch.tensor(gate, dtype=torch.float16), torch.tensor(write, dtype=torch.float16)
    for _ in range(30):
        state = (a[:, 0] * state[0] + a[:, 1] * state[1]) + a[:, 2] * state[2] + b
        states.append(tuple(state.tolist()))
    assert simulate(rnn, "a" * 30, torch.float16, "sequential") == states


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9])
def test_the_scan_is_right_and_rounds_differently(length: int) -> None:
    generator = np.random.default_rng(length)
    rnn = LinearRNN(
        {letter: rational(generator.standard_normal((2, 2)) / 2) for letter in "ab"},
        {letter: rational(generator.standard_normal((1, 2)))[0] for letter in "ab"},
        (Fraction(1), Fraction(1, 3)),
    )
    word = "ab" * length
    scanned, exact = (simulate(rnn, word, torch.float64, model) for model in ("scan", "exact"))
    assert np.allclose(scanned, exact, rtol=1e-12, atol=1e-12)
    if length == 9:
        difference = first_difference(rnn, word, torch.float16, "sequential", "scan")
        assert difference is not None
        assert difference.left != difference.right
        before = [simulate(rnn, word[: difference.step - 1], torch.float16, model) for model in ("sequential", "scan")]
        assert before[0] == before[1]


def test_the_cast_model_is_its_formula() -> None:
    generator = np.random.default_rng(3)
    gates = {letter: rational(generator.standard_normal((2, 2)) / 2) for letter in "ab"}
    writes = {letter: rational(generator.standard_normal((1, 2)))[0] for letter in "ab"}
    rnn = LinearRNN(gates, writes, (Fraction(1), Fraction(-1)))
    word = "abbabaab"
    matrices = {letter: np.array(rows, dtype=object) for letter, rows in gates.items()}
    vectors = {letter: np.array(entries, dtype=object) for letter, entries in writes.items()}

    def rounded(vector: np.ndarray) -> np.ndarray:
        return np.array([nearest(entry, torch.bfloat16) for entry in vector], dtype=object)

    total = np.array([Fraction(0), Fraction(0)], dtype=object)
    for i in range(-1, len(word)):
        term = np.array(rnn.start, dtype=object) if i < 0 else vectors[word[i]]
        for letter in word[i + 1 :]:
            term = matrices[letter].dot(term)
        total = total + rounded(term)
    assert simulate(rnn, word, torch.bfloat16, "cast")[-1] == tuple(map(float, rounded(total)))


def test_the_flip_flop_of_three_quarters() -> None:
    """IEEE floats keep the sign for ever, flushing loses it after 304 steps, and a cast of the exact power after 362."""
    rnn, word = scalar(Fraction(3, 4)), "a" * 400
    states = {
        model: [state[0] for state in simulate(rnn, word, torch.float32, model)] for model in ("sequential", "flushed", "cast")
    }
    assert states["sequential"][-1] > 0
    assert states["flushed"].index(0.0) + 1 == 304 == math.ceil(126 * math.log(2) / math.log(4 / 3))
    assert states["cast"].index(0.0) + 1 == 362 == math.ceil(150 * math.log(2) / math.log(4 / 3))
    difference = first_difference(rnn, word, torch.float32, "sequential", "flushed")
    assert difference is not None
    assert difference.step == 304


def test_minus_three_quarters_alternates_in_ieee_and_vanishes_in_the_cast_model() -> None:
    rnn, word = scalar(Fraction(-3, 4)), "a" * 400
    alive = [state[0] for state in simulate(rnn, word, torch.float32, "sequential")][-4:]
    assert alive == [alive[0], -alive[0], alive[0], -alive[0]]
    assert alive[0] != 0
    assert simulate(rnn, word, torch.float32, "cast")[-1] == (0.0,)


def test_a_normalised_swap_key_is_inexact_and_an_integer_one_is_not() -> None:
    """2v² = 0.99999994 for the float32 nearest to 1/√2, so the swap leaks; the key (1, -1) with β = 1 does not."""
    v = torch.tensor(0.5, dtype=torch.float32).sqrt()
    assert float(2 * v * v) == np.float32(0.99999994)
    leak = 1 - 2 * Fraction(float(v)) ** 2
    leaking = LinearRNN({"a": ((leak, 1 - leak), (1 - leak, leak))}, {"a": (Fraction(0),) * 2}, (Fraction(1), Fraction(0)))
    word = "a" * 64
    assert first_difference(leaking, word, torch.float64, "exact", "sequential") is not None
    assert simulate(leaking, word, torch.float32, "sequential")[-1] != (1.0, 0.0)
    models = [simulate(leaking, word, torch.float32, model)[-1] for model in ("cast", "sequential", "scan")]
    assert len(set(models)) > 1
    swap = LinearRNN(
        {"a": ((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0)))}, {"a": (Fraction(0),) * 2}, (Fraction(1), Fraction(0))
    )
    assert all(simulate(swap, word, dtype, model)[-1] == (1.0, 0.0) for model in MODELS for dtype in FLOATS)


def test_the_open_interval_of_mamba_closes_in_floats() -> None:
    assert float(torch.exp(torch.tensor(-2e-8))) == 1  # some processors are a rounding off nearer to -2⁻²⁵
    assert float(torch.exp(torch.tensor(-6.1e-8))) < 1


def test_three_factors_in_0_1_alternate_for_ever_in_the_cast_model() -> None:
    """The limit lies between two floats and the eigenvalue -63/625 approaches it from both sides: exact products keep it up.

    So "products of factors in [0, 1] recognise star-free languages only" needs the assumption that no limit is such a point.
    """
    axis, plane = (1, 2, 2), [(2, 1, -2), (2, -2, 1)]  # orthogonal, each of length 3
    lines = [(1, 0), (Fraction(3, 5), Fraction(4, 5)), (Fraction(-7, 25), Fraction(24, 25))]
    gate = [[Fraction(i == j) for j in range(3)] for i in range(3)]
    for line in lines:
        direction = [Fraction(line[0] * plane[0][i] + line[1] * plane[1][i]) / 3 for i in range(3)]
        # keeps the axis and the line: I - k kᵀ with a unit key k across the line, eigenvalue 0 along k
        keep = [[Fraction(axis[i] * axis[j], 9) + direction[i] * direction[j] for j in range(3)] for i in range(3)]
        values = np.linalg.eigvalsh(np.array(keep, dtype=float))
        assert np.allclose(sorted(values), [0, 1, 1])
        gate = [[sum((keep[i][m] * gate[m][j] for m in range(3)), Fraction(0)) for j in range(3)] for i in range(3)]
    assert sorted(np.linalg.eigvals(np.array(gate, dtype=float)).real)[0] == pytest.approx(-63 / 625)
    middle = 1 + Fraction(1, 2**24)  # between 1 and the next float32
    start = tuple(middle * axis[i] + Fraction(plane[0][i], 4) for i in range(3))
    rnn = LinearRNN({"a": tuple(map(tuple, gate))}, {"a": (Fraction(0),) * 3}, start)
    entries = [state[0] for state in simulate(rnn, "a" * 60, torch.float32, "cast")]
    low, high = 1.0, 1.0 + 2.0**-23
    assert set(entries[-20:]) == {low, high}
    assert all(x != y for x, y in zip(entries[-20:], entries[-19:], strict=False))
    settled = [state[0] for state in simulate(rnn, "a" * 60, torch.float32, "sequential")]
    assert len(set(settled[-20:])) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate(scalar(Fraction(1)), "ab", torch.float32, "cast"), "letter 'b' has no gate; there are a"),
        (
            lambda: simulate(scalar(Fraction(1)), "a", torch.float32, "float"),
            "model 'float' is not known; there are exact, cast",
        ),
        (lambda: LinearRNN({"a": ((Fraction(1),),)}, {}, (Fraction(1),)), "both need the same letters"),
        (lambda: LinearRNN({"a": ((Fraction(1),),)}, {"a": (Fraction(1),)}, (Fraction(1),) * 2), "A must be 2 × 2"),
    ],
)
def test_bad_values_are_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()


FLOATS = [torch.float16, torch.bfloat16, torch.float32]
NOTHING = torch.zeros(1)


def scalar_layer(gate: float, dtype: torch.dtype) -> DiagonalLayer:
    return DiagonalLayer(lambda x: torch.tensor([gate], dtype=dtype), lambda x: torch.zeros(1, dtype=dtype), lambda h, x: h)


@given(st.integers(0, 40), st.integers(1, 30))
def test_transient_and_period_of_a_known_orbit(tail: int, cycle: int) -> None:
    def step(state: State) -> State:
        n = int(state[0])
        return (torch.tensor(n + 1 if n + 1 < tail + cycle else tail),)

    assert find_cycle(step, (torch.tensor(0),)) == Cycle(tail, cycle)


@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_three_quarters_ends_in_a_cycle_of_two_subnormal_numbers(dtype: torch.dtype) -> None:
    step = diagonal_step([scalar_layer(-0.75, dtype)], NOTHING)
    start: State = (torch.ones(1, dtype=dtype),)
    found = find_cycle(step, start)
    assert found.period == 2
    state = start
    for _ in range(found.transient):
        state = step(state)
    assert 0 < abs(float(state[0])) < torch.finfo(dtype).tiny
    assert torch.equal(step(state)[0], -state[0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_three_quarters_never_reaches_zero_and_how_long_it_takes(dtype: torch.dtype) -> None:
    step = diagonal_step([scalar_layer(0.75, dtype)], NOTHING)
    found = find_cycle(step, (torch.ones(1, dtype=dtype),))
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
    found = find_cycle(diagonal_step(layers, torch.tensor(seed % 8)), start)
    assert 2**depth % found.period == 0


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=st.integers(0, 10_000), depth=st.integers(1, 3))
@settings(deadline=None, max_examples=12)
def test_the_period_is_one_if_no_gate_is_negative(dtype: torch.dtype, seed: int, depth: int) -> None:
    layers, start = random_stack(seed, depth, dtype, low=0.25)
    assert find_cycle(diagonal_step(layers, torch.tensor(seed % 8)), start).period == 1


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_an_odometer_reaches_the_full_period(depth: int) -> None:
    """A layer flips when all those below have just come back to 1: it counts modulo 2^depth."""
    wheel = DiagonalLayer(
        lambda x: torch.where(x > 0, -torch.ones(1), torch.ones(1)), lambda x: torch.zeros(1), lambda h, x: torch.minimum(h, x)
    )
    start: State = tuple(torch.ones(1) for _ in range(depth))
    assert find_cycle(diagonal_step([wheel] * depth, torch.ones(1)), start) == Cycle(0, 2**depth)


def test_a_state_that_does_not_repeat_in_time_is_named() -> None:
    with pytest.raises(ValueError, match="has not repeated within limit=100 steps"):
        find_cycle(lambda state: (state[0] + 1,), (torch.zeros(1),), limit=100)
    with pytest.raises(ValueError, match="holds NaN"):
        find_cycle(lambda state: state, (torch.tensor([float("nan")]),))
