"""Predicted beside observed horizons: ranks, what counts, and what the page says of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from eigentrack.experiments.running.task_cell import with_more
from eigentrack.experiments.studies.horizons import PredictedResult, answer, findings, rank_correlation, typical_factor
from tests.experiments.toy import toy_result


def run(predicted: int | None, observed: int, seed: int = 1) -> PredictedResult:
    """Trained to length 9."""
    toy = toy_result("toy", seed=seed)
    return with_more(PredictedResult, replace(toy, scores=replace(toy.scores, horizon=observed)), predicted=predicted)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 300, 4000], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),  # 1 - 6 Σd² / (n (n² - 1)) = 1 - 24 / 120
        ([1, 2, 2, 3], [1, 2, 3, 4], 4.5 / math.sqrt(4.5 * 5)),  # equal values share the rank 2.5
    ],
)
def test_rank_correlation(one: list[float], other: list[float], expected: float) -> None:
    assert rank_correlation(one, other) == pytest.approx(expected)


def test_equal_values_have_no_order() -> None:
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


def test_the_typical_factor_goes_both_ways() -> None:
    assert typical_factor([run(20, 10), run(10, 30), run(40, 10)]) == pytest.approx(3)


def test_only_horizons_beyond_the_training_lengths_count() -> None:
    assert run(20, 9).counts
    assert not run(8, 8).counts
    assert not run(None, 50).counts


def test_the_answer_is_about_held_out_seeds() -> None:
    held_out = [run(10 * n, 20 * n, seed=1) for n in range(1, 6)]
    chosen_on = [run(100 - 10 * n, 20 * n, seed=2) for n in range(1, 6)]
    assert answer([]) == answer(chosen_on) == ""
    said = answer([*held_out, *chosen_on])
    assert said.startswith(
        "Roughly: on held-out seeds the ranks correlate by 1.00, and half of the predictions are within a factor of 2.0 "
        "(5 networks); on all seeds the ranks correlate by 0."
    )
    lines = findings([*held_out, *chosen_on, run(5, 5)])
    assert "    - seeds on which the method was chosen: the ranks correlate by -1.00" in lines[0]
    assert lines[1].startswith("Of 11 networks with 99% of the answers right over the training lengths, 1 falls below")


def test_results_are_read_back() -> None:
    result = run(20, 30)
    assert PredictedResult.from_json(json.loads(json.dumps(result.to_json()))) == result
