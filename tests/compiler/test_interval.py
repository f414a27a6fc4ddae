"""Intervals hold what exact arithmetic gives, and what float32 gives, for every point between their ends."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.compiler.interval import SILU_AT, SILU_LEAST, Arithmetic, Interval, Unbounded

REAL, SINGLE = Arithmetic(), Arithmetic(2.0**-24, 2.0**-126, 3.4e38)
numbers = st.floats(-50, 50, allow_subnormal=False)


def interval(x: float, y: float) -> Interval:
    return Interval(np.array([min(x, y)]), np.array([max(x, y)]))


def between(x: float, y: float, share: float) -> float:
    return min(max(min(x, y) + share * abs(y - x), min(x, y)), max(x, y))


@given(numbers, numbers, numbers, numbers, st.floats(0, 1), st.floats(0, 1))
def test_sums_and_products_hold_the_exact_values(a: float, b: float, c: float, d: float, s: float, t: float) -> None:
    x, y = interval(a, b), interval(c, d)
    p, q = Fraction(between(a, b, s)), Fraction(between(c, d, t))
    for found, exact in ((REAL.plus(x, y), p + q), (REAL.times(x, y), p * q), (-x, -p)):
        assert Fraction(float(found.low[0])) <= exact <= Fraction(float(found.high[0]))
    if y.low[0] > 0.01:
        found = REAL.divided(x, y)
        assert Fraction(float(found.low[0])) <= p / q <= Fraction(float(found.high[0]))


FUNCTIONS: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exp": mpmath.exp,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "log_sigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(numbers, numbers, st.floats(0, 1))
@settings(max_examples=60)
def test_functions_hold_the_exact_values_and_are_not_much_wider(name: str, a: float, b: float, share: float) -> None:
    function, x = FUNCTIONS[name], between(a, b, share)
    with mpmath.workdps(40):
        found = getattr(REAL, name)(interval(a, b))
        assert mpmath.mpf(float(found.low[0])) <= function(mpmath.mpf(x)) <= mpmath.mpf(float(found.high[0]))
        point = getattr(REAL, name)(Interval.at([x]))
        assert float(point.high[0] - point.low[0]) <= 1e-13 * (1e-6 + abs(float(function(mpmath.mpf(x))))) or x == SILU_AT


def test_silu_is_least_where_it_is_said_to_be() -> None:
    with mpmath.workdps(30):
        least = mpmath.findroot(lambda x: 1 + mpmath.exp(-x) * (1 + x), -1.3)  # the derivative's numerator
        assert abs(least - SILU_AT) < 1e-12
        assert SILU_LEAST <= least / (1 + mpmath.exp(-least)) < SILU_LEAST + 1e-12
    assert REAL.silu(Interval(np.array([-2.0]), np.array([-1.0]))).low[0] <= SILU_LEAST


@given(st.integers(0, 10**6), st.integers(1, 40))
@settings(max_examples=30)
def test_affine_maps_hold_exact_and_single_precision_values(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    weight, bias = (random.normal(size=shape).astype(np.float32).astype(float) * 100 for shape in ((3, size), 3))
    ends = np.sort(random.normal(size=(2, 1, size)).astype(np.float32).astype(float), axis=0)
    box = Interval(ends[0], ends[1])
    x = np.float32(ends[0] + random.random((1, size)) * (ends[1] - ends[0])).astype(float).clip(ends[0], ends[1])
    found = REAL.affine(box, weight, bias)
    for row in range(3):
        exact = sum((Fraction(w) * Fraction(v) for w, v in zip(weight[row], x[0], strict=True)), Fraction(bias[row]))
        assert Fraction(float(found.low[0, row])) <= exact <= Fraction(float(found.high[0, row]))
    single = torch.nn.functional.linear(*(torch.tensor(part, dtype=torch.float32) for part in (x, weight, bias))).double()
    wider = SINGLE.affine(box, weight, bias)
    assert bool((wider.low <= single.numpy()).all() and (single.numpy() <= wider.high).all())


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=50)
def test_the_norm_holds_every_point_of_the_box(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    ends = np.sort(random.normal(size=(2, 1, size)), axis=0)
    weight = random.normal(size=size)
    norm = torch.nn.RMSNorm(size, eps=1e-5, dtype=torch.float64)
    norm.weight.data = torch.tensor(weight)
    found = REAL.rms_norm(Interval(ends[0], ends[1]), weight, 1e-5)
    corners = np.where(random.random((64, size)) < 0.5, ends[0], ends[1])
    inner = ends[0] + random.random((64, size)) * (ends[1] - ends[0])
    values = norm(torch.tensor(np.concatenate([corners, inner]))).detach().numpy()
    assert bool((found.low - 1e-12 <= values).all() and (values <= found.high + 1e-12).all())
    if size == 1:  # then it rises, and the ends are reached
        assert np.allclose(np.sort(norm(torch.tensor(ends[:, 0])).detach().numpy()[:, 0]), [found.low[0, 0], found.high[0, 0]])


def test_float_rounding_widens_every_result() -> None:
    x = Interval.at([0.1])
    for exact, rounded in ((REAL.plus(x, x), SINGLE.plus(x, x)), (REAL.tanh(x), SINGLE.tanh(x))):
        assert rounded.low[0] < exact.low[0] - 1e-9 < exact.high[0] < rounded.high[0] - 1e-9


def test_sums_that_floats_cannot_bound_are_refused() -> None:
    with pytest.raises(Unbounded, match="a sum of 303 terms has no bound"):
        Arithmetic(2.0**-8, 0.0).affine(Interval.at(np.ones((1, 300))), np.ones((1, 300)))


HALF = Arithmetic(2.0**-11, 2.0**-14, 65504.0)
OVERFLOWS: dict[str, Callable[[Arithmetic], Interval]] = {
    "a sum": lambda floats: floats.plus(Interval.at([40000.0]), Interval.at([40000.0])),
    "a negative sum": lambda floats: floats.plus(Interval.at([-40000.0]), Interval.at([-40000.0])),
    "a product": lambda floats: floats.times(Interval.at([-300.0]), Interval.at([300.0])),
    "a quotient": lambda floats: floats.divided(Interval.at([300.0]), Interval.at([0.004])),
    "exp": lambda floats: floats.exp(Interval.at([11.2])),
    "a square in the norm": lambda floats: floats.rms_norm(Interval.at([[200.0, 200.0]]), np.ones(2), 1.0),
    "a divisor in the norm": lambda floats: floats.rms_norm(Interval.at([[0.0, 0.0]]), np.ones(2), 1e-10),
    "a partial sum": lambda floats: floats.affine(Interval.at([[200.0, 200.0]]), np.array([[300.0, -300.0], [200.0, -200.0]])),
    "a bias": lambda floats: floats.affine(Interval.at([[-200.0]]), np.array([[200.0]]), np.array([40000.0])),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_what_may_overflow_in_the_network_is_refused(name: str) -> None:
    """In half precision, though float64 holds it."""
    with pytest.raises(Unbounded, match=r"may exceed 6.55e\+04, the largest float"):
        OVERFLOWS[name](HALF)
    OVERFLOWS[name](SINGLE)


def test_what_overflows_in_float64_is_refused_without_a_warning() -> None:
    huge = Interval.at([[-1.5e308]])
    for operation in (
        lambda: REAL.plus(huge, huge),
        lambda: REAL.times(huge, huge),
        lambda: REAL.affine(huge, np.array([[2.0]])),
        lambda: REAL.rms_norm(huge, np.ones(1), 1e-5),
        lambda: REAL.exp(-huge),
        lambda: REAL.times(huge.inflated(1e308), Interval.at([[1.0]])),
    ):
        with pytest.raises(Unbounded, match="the largest float"):
            operation()


def test_the_scale_of_an_empty_memory_is_no_overflow() -> None:
    empty = Interval.at([-np.inf])
    assert HALF.plus(empty, Interval.at([3.0])).high[0] == -np.inf
    assert HALF.exp(HALF.plus(empty, Interval.at([3.0]))).high[0] < 1e-4
    begun = HALF.plus(Interval(np.array([-np.inf]), np.array([1.0])), Interval.at([3.0]))
    assert begun.low[0] == -np.inf
    assert 4 <= begun.high[0] < 4.01


def test_bad_intervals_are_refused() -> None:
    with pytest.raises(ValueError, match="must not lie above"):
        Interval(np.array([1.0]), np.array([0.0]))
    with pytest.raises(ValueError, match="must not lie above"):
        Interval(np.array([np.nan]), np.array([0.0]))
    with pytest.raises(ValueError, match="have the shapes"):
        Interval(np.zeros(1), np.zeros(2))
    with pytest.raises(Unbounded, match="reaches down to 0"):
        REAL.divided(Interval.at([1.0]), Interval(np.array([0.0]), np.array([1.0])))


def test_within_and_meets_are_told_row_by_row() -> None:
    boxes = Interval(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([[1.0, 1.0], [3.0, 1.0]]))
    point = Interval.at([[1.0, 1.0]])
    assert point.within(boxes).tolist() == [True, False]
    assert point.inflated(0.5).within(boxes).tolist() == [False, False]
    assert point.inflated(1.0).meets(boxes).tolist() == [True, True]
    assert boxes[:1].hull(boxes[1:]).radius.tolist() == [[1.5, 0.5]]
