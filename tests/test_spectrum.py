"""EigenRange, EigenDisk, EigenPolygon: frozen values, written alike, that reach their ends and refuse what diverges."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange, Eigenvalues, eigenvalues_from_json, parse_eigenvalues

bounds = st.floats(-1, 1, allow_nan=False)


def test_it_prints_as_an_interval() -> None:
    assert str(EigenRange(0, 1)) == "[0, 1]"
    assert str(EigenRange(-1, 1)) == "[-1, 1]"
    assert f"{EigenRange(-0.5, 1)}" == "[-0.5, 1]"


def test_it_is_a_value() -> None:
    assert EigenRange(-1, 1) == EigenRange(-1.0, 1.0)
    assert len({EigenRange(-1, 1), EigenRange(-1, 1), EigenRange(0, 1)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        EigenRange(0, 1).low = -1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (-1.5, 1, "low=-1.5 lies outside .* diverge"),
        (0, 1.01, "high=1.01 lies outside .* diverge"),
        (1, 1, "low=1 must be below high=1"),
        (0.5, -0.5, "low=0.5 must be below high=-0.5"),
        (float("nan"), 1, "low=nan must be a finite number"),
        ("a", 1, "low='a' must be a finite number"),
        (True, 1, "low=True must be a finite number"),
    ],
)
def test_bad_ends_are_named(low: float, high: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EigenRange(low, high)


@given(low=bounds, high=bounds, dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_a_gate_of_zero_or_one_reaches_the_ends_exactly(low: float, high: float, dtype: torch.dtype) -> None:
    if low >= high:
        return
    ends = EigenRange(low, high).eigenvalue(torch.tensor([0.0, 1.0], dtype=dtype))
    assert torch.equal(ends, torch.tensor([low, high], dtype=dtype))


@given(low=bounds, high=bounds, gate=st.floats(0, 1))
def test_every_gate_stays_inside(low: float, high: float, gate: float) -> None:
    if low >= high:
        return
    value = float(EigenRange(low, high).eigenvalue(torch.tensor(gate, dtype=torch.float64)))
    assert low <= value <= high


def test_beta_is_one_minus_the_eigenvalue() -> None:
    logit = torch.linspace(-5, 5, 11, dtype=torch.float64)
    assert torch.allclose(EigenRange(0, 1).beta(logit), torch.sigmoid(logit))
    assert torch.allclose(EigenRange(-1, 1).beta(logit), 2 * torch.sigmoid(logit))
    middle = EigenRange(-0.5, 0.8)
    assert torch.allclose(middle.beta(logit), 1 - middle.eigenvalue(torch.sigmoid(-logit)))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (-0.5, 0.75)])
def test_an_overshoot_reaches_both_ends_with_finite_logits(low: float, high: float) -> None:
    eigenvalues, cut = EigenRange(low, high, overshoot=0.05), math.log(1.05 / 0.05)
    logit = torch.tensor([-9, -cut - 1e-4, -1.0, 0.0, 1.0, cut + 1e-4, 9], requires_grad=True)
    beta = eigenvalues.beta(logit)
    (slope,) = torch.autograd.grad(beta.sum(), logit)
    assert beta[:2].tolist() == [1 - high] * 2
    assert beta[-2:].tolist() == [1 - low] * 2
    assert beta[3] == 1 - (low + high) / 2
    assert ((1 - high < beta[2:5]) & (beta[2:5] < 1 - low)).all()
    assert (slope != 0).tolist() == [False, False, True, True, True, False, False]
    inside = (1 - beta[2:5]).tolist()
    assert [eigenvalues.beta_logit(value) for value in inside] == pytest.approx([-1, 0, 1], abs=1e-5)


def test_where_float32_reaches_minus_one() -> None:
    """2σ(z) is 2 from z = 17 on, Mamba's 2e^{-x} - 1 is -1 from x = 18.1 on, and not before."""
    wide = EigenRange(-1, 1)
    assert wide.beta(torch.tensor(17.0)) == 2.0
    assert wide.beta(torch.tensor(16.0)) < 2.0
    assert wide.eigenvalue(torch.exp(torch.tensor(-18.1))) == -1.0
    assert wide.eigenvalue(torch.exp(torch.tensor(-17.0))) > -1.0


def test_gradients_flow_to_the_gate() -> None:
    gate = torch.tensor([0.2, 0.8], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(EigenRange(-1, 1).eigenvalue(gate).sum(), gate)
    assert torch.equal(gradient, torch.full((2,), 2.0, dtype=torch.float64))


@pytest.mark.parametrize("text", ["[-1, 1]", "-1,1", "-1 1", " [ -1 , 1 ] "])
def test_parse(text: str) -> None:
    assert EigenRange.parse(text) == EigenRange(-1, 1)


@pytest.mark.parametrize("text", ["", "1", "a,b", "0,1,2", "nan", "0,1 overshoot", "0,1 overshoot much"])
def test_parse_names_what_it_cannot_read(text: str) -> None:
    with pytest.raises(ValueError, match="is not two numbers"):
        EigenRange.parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1,1", EigenRange(-1, 1)),
        ("[0, 1]", EigenRange(0, 1)),
        ("disk", EigenDisk()),
        (" disk 0.9", EigenDisk(0, 0.9)),
        ("annulus 0.5 1", EigenDisk(0.5, 1)),
        ("annulus 0.25,0.75", EigenDisk(0.25, 0.75)),
        ("polygon 5", EigenPolygon(5)),
        ("polygon 5 sharp_after 1000", EigenPolygon(5, sharp_after=1000)),
        ("-1,1 overshoot 0.05", EigenRange(-1, 1, overshoot=0.05)),
        ("[-1, 1] overshoot 2", EigenRange(-1, 1, overshoot=2)),
        ("range 0 1", EigenRange(0, 1)),
    ],
)
def test_both_are_read_from_text_and_written_so_that_they_are_read_again(text: str, value: Eigenvalues) -> None:
    assert parse_eigenvalues(text) == value
    assert parse_eigenvalues(str(value)) == value
    assert eigenvalues_from_json(json.loads(json.dumps(value.to_json()))) == value


@pytest.mark.parametrize("text", ["disk 1 2 3", "annulus", "annulus 1", "annulus a b", "disk x"])
def test_text_that_is_no_disk_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"eigenvalues {text!r} are not a disk: write disk, disk 0.9 or annulus 0.5 1"):
        parse_eigenvalues(text)


@pytest.mark.parametrize(
    "text", ["polygon", "polygon 2.5", "polygon five", "polygon 5 1", "polygon -3", "polygon 5 sharp_after"]
)
def test_text_that_is_no_polygon_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"eigenvalues {text!r} are not a polygon: write polygon and the number of corners"):
        parse_eigenvalues(text)


@pytest.mark.parametrize("corners", [2, 1025, True, 5.0])
def test_polygons_have_three_corners_or_more(corners: object) -> None:
    with pytest.raises(ValueError, match=f"EigenPolygon corners={corners!r} must be a whole number from 3 to 1024"):
        eigenvalues_from_json({"polygon": corners})


@pytest.mark.parametrize("steps", [-1, True, 1.5])
def test_what_sharp_after_cannot_be(steps: object) -> None:
    with pytest.raises(ValueError, match=f"sharp_after={steps!r} must be a number of steps, 0 or more, or None for never"):
        eigenvalues_from_json({"polygon": 3, "sharp_after": steps})


@pytest.mark.parametrize("wrong", [-0.1, 11.0, math.nan, "a", True])
def test_what_an_overshoot_cannot_be(wrong: object) -> None:
    with pytest.raises(ValueError, match=f"overshoot={wrong!r} must be a number from 0 to 10, such as 0"):
        eigenvalues_from_json({"range": [-1, 1], "overshoot": wrong})


def test_plain_sets_are_written_as_before() -> None:
    assert EigenRange(-1, 1).to_json() == [-1.0, 1.0]
    assert EigenDisk(0.5).to_json() == {"disk": [0.5, 1.0]}
    assert EigenPolygon(5).to_json() == {"polygon": 5}


@pytest.mark.parametrize("corners", [3, 4, 5, 60])
def test_a_sharp_choice_is_a_corner(corners: int) -> None:
    modulus, turns = EigenPolygon(corners).eigenvalue(torch.eye(corners))
    assert (modulus <= 1).all()
    torch.testing.assert_close(modulus, torch.ones(corners), rtol=0, atol=2e-7)
    error = turns.double() - torch.arange(corners).double() / corners
    assert (error - error.round()).abs().max() < 6e-8


@given(corners=st.integers(3, 12), seed=st.integers(0, 10**6), sharpness=st.floats(0.1, 20))
def test_the_eigenvalue_is_the_mean_of_the_corners(corners: int, seed: int, sharpness: float) -> None:
    draws = torch.randn(7, corners, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    weights = (sharpness * draws).softmax(-1)
    modulus, turns = EigenPolygon(corners).eigenvalue(weights)
    roots = torch.exp(2j * math.pi * torch.arange(corners).double() / corners)
    torch.testing.assert_close(torch.polar(modulus, 2 * math.pi * turns), (weights * roots).sum(-1), rtol=0, atol=1e-11)


def test_gradients_of_a_polygon_are_finite_even_at_zero() -> None:
    weights = torch.randn(3, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(EigenPolygon(5).eigenvalue, (weights,))
    even = torch.full((4,), 0.25, requires_grad=True)  # 0, where no angle is defined
    modulus, turns = EigenPolygon(4).eigenvalue(even)
    (modulus + turns).backward()
    assert even.grad is not None
    assert even.grad.isfinite().all()


@pytest.mark.parametrize("text", ["Disk", "circle 1"])
def test_a_word_for_no_set_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=rf"eigenvalues {text!r} are not known: write -1,1 or \[0, 1\], disk, disk 0.9"):
        parse_eigenvalues(text)


@pytest.mark.parametrize(
    "value", [3, [1], {"disk": 1}, {"disk": [0, 1], "ring": 1}, {"range": 1}, {"annulus": [0, 1]}, "disk", None]
)
def test_json_that_is_neither_is_named(value: object) -> None:
    with pytest.raises(ValueError, match=r"eigenvalues are written \[low, high\], "):
        eigenvalues_from_json(value)


@pytest.mark.parametrize(
    ("inner", "outer", "message"),
    [
        (-0.5, 1, "inner=-0.5 lies outside .0, 1.: a modulus is not negative"),
        (0, 1.5, "outer=1.5 lies outside .0, 1.: .* diverge"),
        (0.5, 0.5, "inner=0.5 must be below outer=0.5"),
        (0, float("inf"), "outer=inf must be a finite number"),
    ],
)
def test_bad_radii_are_named(inner: float, outer: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EigenDisk(inner, outer)


def test_the_radial_part_is_what_does_not_turn() -> None:
    assert EigenRange(-1, 1).radial == EigenRange(-1, 1)
    assert EigenDisk(0.25, 1).radial == EigenRange(0.25, 1)
