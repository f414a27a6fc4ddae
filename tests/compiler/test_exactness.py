"""The watcher lets exact sums pass in any order, and names what may round."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from eigentrack.compiler.exactness import ExactnessCheck, quanta


def faults(compute: object, *tensors: Tensor) -> dict[str, str]:
    check = ExactnessCheck()
    with check:
        compute(*tensors)  # type: ignore[operator]
    return check.faults


def test_quanta_are_the_lowest_set_bits() -> None:
    found = quanta(torch.tensor([0.0, 1.0, -3.0, 0.75, 1024.0, 0.1, math.inf, math.nan], dtype=torch.float64))
    assert found[:5].tolist() == [math.inf, 1.0, 1.0, 0.25, 1024.0]
    assert found[5] == 0.1 - 0.1 + 2.0**-55  # 0.1 in binary is 0x1.999999999999ap-4: the last set bit is 2^-55
    assert torch.isnan(found[6:]).all()


@given(st.floats(allow_infinity=False, allow_nan=False).filter(bool))
def test_a_quantum_is_the_largest_power_of_two_that_divides(value: float) -> None:
    quantum, exact = Fraction(float(quanta(torch.tensor(value, dtype=torch.float64)))), Fraction(value)
    assert (exact / quantum).denominator == 1
    assert (exact / quantum).numerator % 2 == 1
    assert quantum.numerator & (quantum.numerator - 1) == 0
    assert quantum.denominator & (quantum.denominator - 1) == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_small_integers_are_exact_in_every_type(dtype: torch.dtype) -> None:
    x = torch.randint(-2, 3, (5, 7)).to(dtype)
    y = torch.randint(-2, 3, (7, 4)).to(dtype)
    assert faults(lambda a, b: (a @ b).relu() if False else a @ b, x, y) == {}
    assert faults(lambda a: torch.einsum("ij,ij->i", a, a) + a[:, 0], x) == {}


def test_sums_beyond_the_mantissa_are_named() -> None:
    x = torch.tensor([[2.0**24, 1.0]])
    assert "may round" in faults(lambda a: a @ torch.ones(2, 1), x)["mm"]
    assert "may round" in faults(lambda a: a + 0.1, torch.tensor([0.3]))["add"]
    # 256 + 1 needs nine bits
    assert (
        "may round"
        in faults(lambda a: a @ torch.ones(2, 1, dtype=torch.bfloat16), torch.tensor([[256.0, 1.0]]).bfloat16())["mm"]
    )


def test_a_sum_that_cancels_is_still_named() -> None:
    """2^24 + 1 - 2^24 is 1 or 0, depending on the order."""
    x = torch.tensor([[2.0**24, 1.0, -(2.0**24)]])
    assert "mm" in faults(lambda a: a @ torch.ones(3, 1), x)


def test_a_weight_of_zero_takes_no_part() -> None:
    x, weights = torch.tensor([[0.5, 1.0]]), torch.tensor([[0.0, 1.0], [-1024.0, 0.5]])
    assert faults(lambda a, b: a.bfloat16() @ b.bfloat16(), x, weights) == {}


@pytest.mark.parametrize("function", [torch.sigmoid, torch.nn.functional.silu])
def test_gates_are_exact_where_they_are_settled(function: object) -> None:
    assert faults(function, torch.tensor([-1024.0, 0.0, 1024.0])) == {}
    assert "implementations may differ" in next(iter(faults(function, torch.tensor([0.5])).values()))


def test_settled_gates_have_the_claimed_values() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.tensor([-1024.0, 0.0, 1024.0], dtype=dtype)
        assert torch.sigmoid(x).tolist() == [0.0, 0.5, 1.0]
        assert torch.nn.functional.silu(x).tolist() == [0.0, 0.0, 1024.0]
        assert torch.nn.functional.softplus(x[::2]).tolist() == [0.0, 1024.0]
        assert torch.exp(x[:2]).tolist() == [0.0, 1.0]


def test_unknown_ops_are_named() -> None:
    assert faults(torch.sin, torch.zeros(2)) == {"sin": "is not covered by the proof"}


def test_too_small_and_too_large_are_named() -> None:
    assert "mul" in faults(lambda a: a * a, torch.tensor([2.0**-100]))
    assert "mul" in faults(lambda a: a * a, torch.tensor([2.0**100]))
    assert "mm" in faults(lambda a: a @ a, torch.full((1, 1), 2.0**9, dtype=torch.float16))
    assert "TF32" in faults(lambda a: a @ a, torch.full((1, 1), 4097.0))["mm"]


def test_ops_with_several_results_are_named() -> None:
    assert faults(lambda a: torch.nn.functional.layer_norm(a, (2,)), torch.ones(1, 2)) == {
        "native_layer_norm": "is not covered by the proof"
    }
