"""The best constant answer, against shares that are known."""

from __future__ import annotations

import pytest

from eigentrack.experiments.design.experiment import Panel
from eigentrack.experiments.reporting.columns import constant_column, constant_score
from eigentrack.tasks import TrackingTask
from tests.experiments.toy import toy_result

ENDS_WITH_1 = ((0, 1), (0, 1))  # half of all words
COUNTS_TO_2 = ((1, 1), (2, 2), (2, 2))


@pytest.mark.parametrize("begin_token", [False, True])
def test_answers_as_frequent_as_each_other_score_nothing(begin_token: bool) -> None:
    task = TrackingTask(ENDS_WITH_1, (0, 1), begin_token=begin_token)
    assert constant_score(task, (5, 60)) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("begin_token", [False, True])
def test_only_the_lengths_of_the_test_count(begin_token: bool) -> None:
    """State 1 after one letter, 2 ever after: at lengths 1 to 4 the answer is 2 three times of four."""
    task = TrackingTask(COUNTS_TO_2, (0, 1, 2), begin_token=begin_token)
    assert constant_score(task, (1, 4)) == pytest.approx((3 / 4 - 1 / 3) / (1 - 1 / 3))
    assert constant_score(task, (2, 4)) == 1


def test_the_column_finds_its_panel() -> None:
    panels = (Panel("other", "parity"), Panel("parity", "language", {"regex": "(a|b)*a(a|b)(a|b)(a|b)*"}))
    found = float(constant_column(panels, (40, 80)).show([toy_result()]))
    assert found == pytest.approx(1, abs=0.01)  # nearly all long words are in it
