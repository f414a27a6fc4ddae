"""Curves by length, read back from the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.curve_plot import plot_sequence_accuracy
from eigentrack.experiments.length_test import NO_SCORES, CurvePoint
from tests.experiments.figures import drawn
from tests.experiments.toy import toy_result


def test_the_median_goes_as_far_as_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {0: (1.0, 0.9, 0.8, 0.7), 1: (1.0, 0.1), 2: (0.6, 0.5, 0.4)}
    results = []
    for seed, heights in values.items():
        toy = toy_result(seed=seed)
        curve = tuple(CurvePoint(10 * (place + 1), 1.0, height) for place, height in enumerate(heights))
        results.append(replace(toy, scores=replace(toy.scores, curve=curve)))
    (axes,) = drawn(monkeypatch, lambda path: plot_sequence_accuracy(results, path), tmp_path / "curves.png").axes
    *seeds, median, trained = axes.lines
    assert [list(line.get_ydata()) for line in seeds] == [list(heights) for heights in values.values()]
    assert (list(median.get_xdata()), list(median.get_ydata())) == ([10, 20], [1.0, 0.5])
    assert trained.get_xdata()[0] == 9


def test_seeds_that_diverged_are_counted_in_the_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [toy_result(), replace(toy_result(seed=1), scores=NO_SCORES), toy_result("DeltaNet [0, 1]")]
    (axes,) = drawn(monkeypatch, lambda path: plot_sequence_accuracy(results, path), tmp_path / "curves.png").axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["DeltaNet [-1, 1]; 1 of 2 diverged", "DeltaNet [0, 1]", "longest in training: 9"]
