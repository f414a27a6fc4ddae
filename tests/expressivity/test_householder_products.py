"""Proposition 1: norms, factorisations and their lengths, eigenvalues of products; against numpy's own definitions."""

from __future__ import annotations

import math
from itertools import permutations
from itertools import product as cartesian

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.expressivity.householder_products import (
    Factor,
    Matrix,
    eigenvalues_are_one_or_inside,
    eigenvalues_are_real,
    factor_contraction,
    factor_orthogonal,
    factor_partial_permutation,
    factor_permutation,
    factor_rotation,
    product,
)

dimensions = st.integers(1, 7)
seeds = st.integers(0, 2**32 - 1)


def plain_product(factors: tuple[Factor, ...], n: int) -> Matrix:
    """The last factor stands on the left: the first acts first."""
    return np.linalg.multi_dot([np.eye(n), np.eye(n), *(factor.matrix for factor in reversed(factors))])


def random_orthogonal(n: int, moved: int, rng: np.random.Generator) -> Matrix:
    """Moves exactly `moved` directions."""
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    while True:
        small = np.linalg.qr(rng.standard_normal((moved, moved)))[0] if moved else np.zeros((0, 0))
        if moved == 0 or np.abs(np.linalg.eigvals(small) - 1).min() > 1e-3:
            break
        small[:, 0] *= -1
        if np.abs(np.linalg.eigvals(small) - 1).min() > 1e-3:
            break
    core = np.eye(n)
    core[:moved, :moved] = small
    return basis @ core @ basis.T


def random_factors(rng: np.random.Generator, n: int, count: int, low: float, high: float) -> tuple[Factor, ...]:
    keys = rng.standard_normal((count, n))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    return tuple(Factor(tuple(key), beta) for key, beta in zip(keys, rng.uniform(low, high, count), strict=True))


@given(dimensions, st.integers(0, 7), seeds)
@settings(deadline=None, max_examples=80)
def test_orthogonal_matrices_take_as_many_reflections_as_they_move_directions(n: int, moved: int, seed: int) -> None:
    q = random_orthogonal(n, min(moved, n), np.random.default_rng(seed))
    factors = factor_orthogonal(q)
    assert np.abs(plain_product(factors, n) - q).max() < 1e-12
    assert len(factors) == np.linalg.matrix_rank(q - np.eye(n), tol=1e-9) == min(moved, n)
    assert all(abs(factor.eigenvalue + 1) < 1e-12 for factor in factors)


@pytest.mark.parametrize("angle", [1e-10, 1e-7, 1e-3, 1.0, math.pi - 1e-9, math.pi, -2.0])
def test_orthogonal_stays_exact_near_the_identity(angle: float) -> None:
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    q = basis[:, :2] @ (turn - np.eye(2)) @ basis[:, :2].T + np.eye(5)
    factors = factor_orthogonal(q)
    assert len(factors) == 2
    assert np.abs(plain_product(factors, 5) - q).max() < 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_permutation_takes_points_minus_cycles_swaps_and_is_exact(n: int) -> None:
    for images in permutations(range(n)):
        factors = factor_permutation(images)
        expected = np.zeros((n, n))
        expected[list(images), range(n)] = 1
        for dtype in (np.float16, np.float32, np.float64):
            state = np.eye(n, dtype=dtype)
            for factor in factors:
                key = np.array(factor.key, dtype=dtype)
                state = state - dtype(factor.beta) * np.outer(key, key @ state)
            assert np.array_equal(state, expected)
        assert len(factors) == np.linalg.matrix_rank(expected - np.eye(n))
        assert all(set(factor.key) <= {0.0, 1.0, -1.0} and factor.eigenvalue == -1 for factor in factors)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_partial_permutation_takes_the_rank_of_what_it_changes(n: int) -> None:
    for images in cartesian([None, *range(n)], repeat=n):
        targets = [image for image in images if image is not None]
        if len(set(targets)) < len(targets):
            with pytest.raises(ValueError, match="must be distinct points"):
                factor_partial_permutation(images)
            continue
        expected = np.zeros((n, n))
        for point, image in enumerate(images):
            if image is not None:
                expected[image, point] = 1
        factors = factor_partial_permutation(images)
        assert np.array_equal(product(factors, n), expected)
        assert len(factors) == np.linalg.matrix_rank(expected - np.eye(n))


@given(st.floats(-10, 10))
def test_rotations_take_two_reflections(angle: float) -> None:
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    factors = factor_rotation(angle)
    assert len(factors) == 2
    assert np.abs(plain_product(factors, 2) - turn).max() < 1e-12


@given(dimensions, seeds, st.sampled_from(["generic", "singular", "norm one", "symmetric", "nilpotent", "zero"]))
@settings(deadline=None, max_examples=120)
def test_contractions_take_at_most_two_factors_for_each_dimension(n: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    m = rng.standard_normal((n, n))
    m /= np.linalg.norm(m, 2) * (1 if kind == "norm one" else rng.uniform(1, 3))
    if kind == "singular":
        m[:, 0] = 0
    elif kind == "symmetric":
        m = (m + m.T) / 2
    elif kind == "nilpotent":
        m = np.eye(n, k=1)
    elif kind == "zero":
        m = np.zeros((n, n))
    factors = factor_contraction(m)
    assert np.abs(plain_product(factors, n) - m).max() < 1e-12
    assert len(factors) <= 2 * n
    if kind in ("symmetric", "zero"):
        assert len(factors) == np.linalg.matrix_rank(m - np.eye(n), tol=1e-12)
    assert all(abs(np.linalg.norm(factor.key) - 1) < 1e-12 and 0 <= factor.beta <= 2 for factor in factors)


@pytest.mark.parametrize("short", [0.0, 1e-14, 5e-13, 9e-13, 1.1e-12, 1e-9])
def test_contractions_that_are_nearly_orthogonal(short: float) -> None:
    q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((5, 5)))
    m = q * (1 - short)
    assert np.abs(plain_product(factor_contraction(m), 5) - m).max() <= 1e-12


@given(dimensions, st.integers(1, 8), seeds)
@settings(deadline=None)
def test_item_1_products_never_stretch(n: int, count: int, seed: int) -> None:
    factors = random_factors(np.random.default_rng(seed), n, count, 0, 2)
    assert np.linalg.norm(product(factors, n), 2) <= 1 + 1e-12


@given(dimensions, st.integers(1, 8), seeds)
@settings(deadline=None)
def test_item_3_without_reflections_every_eigenvalue_is_one_or_inside(n: int, count: int, seed: int) -> None:
    factors = random_factors(np.random.default_rng(seed), n, count, 0.01, 1.99)
    assert eigenvalues_are_one_or_inside(factors)


def test_item_3_fails_with_one_reflection() -> None:
    assert not eigenvalues_are_one_or_inside((Factor((0.6, 0.8), 2.0),))
    assert not eigenvalues_are_one_or_inside(factor_rotation(1.0))


@given(dimensions, st.integers(1, 2), seeds)
@settings(deadline=None)
def test_item_3_two_factors_that_do_not_flip_have_real_eigenvalues(n: int, count: int, seed: int) -> None:
    factors = random_factors(np.random.default_rng(seed), n, count, 0, 1)
    assert eigenvalues_are_real(factors, tolerance=1e-7)


def test_item_3_three_factors_in_0_1_can_have_complex_and_negative_eigenvalues() -> None:
    """The printed statement, real eigenvalues for any number of factors, fails at three; the modulus stays below 1."""
    rng = np.random.default_rng(0)
    products = [random_factors(rng, 3, 3, 0.7, 1) for _ in range(2000)]
    values = np.array([np.linalg.eigvals(product(factors, 3)) for factors in products])
    assert np.abs(values.imag).max() > 0.1
    assert values.real.min() < -0.05
    assert np.abs(values).max() < 1
    assert any(not eigenvalues_are_real(factors) for factors in products)


def test_three_projections_onto_lines_60_degrees_apart_flip() -> None:
    keys = [(-math.sin(angle), math.cos(angle)) for angle in (0, math.pi / 3, 2 * math.pi / 3)]
    values = np.linalg.eigvals(product([Factor(key, 1.0) for key in keys], 2))
    assert min(values.real) == pytest.approx(-1 / 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: factor_contraction(np.diag([1.5, 0.0])), "the norm 1.5 is above 1"),
        (lambda: factor_orthogonal(np.diag([0.5, 1.0])), "QᵀQ differs from the identity by 0.75: not orthogonal"),
        (lambda: factor_permutation([0, 0]), r"images=\[0, 0\] is no permutation of 0..1"),
        (lambda: factor_permutation([1, 2]), "is no permutation"),
        (lambda: factor_contraction(np.zeros((2, 3))), r"a matrix of shape \[2, 3\] was given"),
        (lambda: Factor((1.0,), 2.5), "beta=2.5 gives the eigenvalue -1.5 along the key"),
        (lambda: Factor((), 1.0), "has no entries"),
    ],
)
def test_bad_values_are_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
