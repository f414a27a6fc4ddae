"""Factors multiply to the map they stand for, and there are as few as the rank allows."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.compiler.plan import Move
from eigentrack.compiler.tracking import move_points, reset_points


def apply(move: Move, state: numpy.ndarray) -> numpy.ndarray:
    state = 0 * state if move.forget else state
    for factor in move.factors:
        key, value = numpy.array(factor.key), numpy.array(factor.value)
        state = state - factor.beta * numpy.outer(key, key @ state) + factor.beta * numpy.outer(key, value)
    return state


@st.composite
def partial_injections(draw: st.DrawFn) -> list[int | None]:
    size = draw(st.integers(1, 7))
    images: list[int | None] = list(draw(st.permutations(range(size))))
    for point in draw(st.sets(st.integers(0, size - 1))):
        images[point] = None
    return images


@given(partial_injections())
def test_moves_are_the_map_with_the_fewest_factors(images: list[int | None]) -> None:
    size = len(images)
    expected = numpy.zeros((size, size))
    for point, image in enumerate(images):
        if image is not None:
            expected[image, point] = 1
    move = move_points(images, columns=size)
    assert (apply(move, numpy.eye(size)) == expected).all()
    assert len(move.factors) == numpy.linalg.matrix_rank(expected - numpy.eye(size))


@given(partial_injections())
def test_every_factor_has_norm_at_most_one(images: list[int | None]) -> None:
    for factor in move_points(images, columns=1).factors:
        assert factor.beta * sum(entry**2 for entry in factor.key) <= 2


@pytest.mark.parametrize("gated", [False, True])
def test_resets_forget_what_was_there(gated: bool) -> None:
    before = numpy.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]])
    after = apply(reset_points(4, [2, 0, 2], gated), before)
    assert (after == numpy.array([[0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 0]])).all()
    assert len(reset_points(4, [2, 0, 2], gated).factors) == (2 if gated else 4)
