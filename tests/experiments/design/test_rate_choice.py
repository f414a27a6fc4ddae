"""Spread over seeds, and the choice of the learning rate on validation alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.experiments.design.rate_choice import choose_rates, spread
from tests.experiments.toy import toy_result

KEY = ("parity", "DeltaNet [-1, 1]")
shares = st.floats(0, 1)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_the_spread_by_its_definition(values: list[float]) -> None:
    found = spread(values)
    assert found.best == max(values)
    assert found.median == pytest.approx(np.median(values))
    assert found.deviation == pytest.approx(np.median(np.abs(np.array(values) - np.median(values))))


def test_one_outlier_does_not_move_the_deviation() -> None:
    assert spread([0.1, 0.2, 0.9]).deviation == pytest.approx(0.1)


@given(st.lists(shares, min_size=6, max_size=6), st.lists(shares, min_size=6, max_size=6))
def test_the_rate_is_chosen_on_validation_only(validations: list[float], scores: list[float]) -> None:
    """Whatever the test finds, the rate with the highest median validation accuracy is taken."""
    cells = [(rate, seed) for rate in (1e-2, 1e-3) for seed in range(3)]
    results = [
        toy_result(rate=rate, seed=seed, validation=validation, score=score)
        for (rate, seed), validation, score in zip(cells, validations, scores, strict=True)
    ]
    chosen = choose_rates(results, (0, 1, 2))[KEY]
    other = 1e-3 if chosen == 1e-2 else 1e-2
    medians = {1e-2: np.median(validations[:3]), 1e-3: np.median(validations[3:])}
    assert medians[chosen] >= medians[other]


def test_only_the_given_seeds_choose() -> None:
    results = [toy_result(rate=rate, seed=0, validation=v) for rate, v in ((1e-2, 0.9), (1e-3, 0.8))]
    results += [toy_result(rate=rate, seed=1, validation=v) for rate, v in ((1e-2, 0.1), (1e-3, 1.0))]
    assert choose_rates(results, (0,)) == {KEY: 1e-2}
    assert choose_rates(results, (0, 1)) == {KEY: 1e-3}
    assert choose_rates(results, (7,)) == {}


def test_ties_go_to_fewer_steps_then_to_the_lower_loss() -> None:
    slow, fast = toy_result(rate=1e-3, validation=1.0), replace(toy_result(rate=1e-2, validation=1.0), steps=5)
    assert choose_rates([slow, fast], (0,)) == {KEY: 1e-2}
    rough = replace(fast, rate=1e-4, record=replace(fast.record, last_loss=0.5))
    assert choose_rates([rough, fast], (0,)) == {KEY: 1e-2}
