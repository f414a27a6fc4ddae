"""What the message of a diverged run names."""

from __future__ import annotations

import math

import pytest

from eigentrack.training.loop import Diverged, check_finite
from eigentrack.training.step import Outcome

PARTS = ("embedding", "blocks.0.mixer", "blocks.1.mixer", "head")


def outcome(number: int, loss: float, *norms: float) -> Outcome:
    return Outcome(number, loss, 0.5, dict(zip(PARTS, norms, strict=True)))


def test_finite_outcomes_pass() -> None:
    check_finite(outcome(3, 0.7, 1.0, 2.0, 3.0, 4.0), None, 1e-3)


def test_a_gradient_breaks_nearest_to_the_head() -> None:
    message = r"the gradient of blocks.1.mixer is not finite at step 4 \(loss 0.7\): lower the learning rate \(0.001\)$"
    with pytest.raises(Diverged, match=message) as error:
        check_finite(outcome(3, 0.7, math.nan, math.inf, math.nan, 2.0), None, 1e-3)
    assert error.value.step == 4


def test_the_step_before_is_told() -> None:
    before = outcome(8, 5.25, 1.0, 7e4, 2.0, 3.0)
    message = r"the loss is inf at step 10: .*; the step before had loss 5.25 and .* norm, 7e\+04, in blocks.0.mixer$"
    with pytest.raises(Diverged, match=message):
        check_finite(outcome(9, math.inf, *[math.nan] * 4), before, 1e-3)
