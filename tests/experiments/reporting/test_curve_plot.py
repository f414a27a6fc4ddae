"""Curves by length, read back from the figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgb

from eigentrack.experiments.reporting.curve_plot import plot_scaled_accuracy, plot_sequence_accuracy
from eigentrack.experiments.running.length_test import NO_SCORES, CurvePoint
from eigentrack.experiments.running.task_cell import CellResult
from tests.experiments.figures import drawn
from tests.experiments.toy import toy_result

DIVERGED = {"scores": NO_SCORES, "diverged_at": 3}


def with_curve(result: CellResult, heights: Sequence[float], every: int = 1) -> CellResult:
    """Accuracy and sequence accuracy of two classes at every so many lengths."""
    curve = tuple(CurvePoint(every * (place + 1), height, height) for place, height in enumerate(heights))
    return replace(result, scores=replace(result.scores, curve=curve, longest=curve[-1].length))


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_median_goes_as_far_as_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {0: (1.0, 0.9, 0.8, 0.7), 1: (1.0, 0.1), 2: (0.6, 0.5, 0.4)}
    results = [with_curve(toy_result(seed=seed), heights, every=10) for seed, heights in values.items()]
    figure = drawn(monkeypatch, lambda path: plot_sequence_accuracy(results, path), tmp_path / "curves.png")
    (axes,) = figure.axes
    *seeds, median, trained = axes.lines
    assert [list(line.get_ydata()) for line in seeds] == [list(heights) for heights in values.values()]
    assert (list(median.get_xdata()), list(median.get_ydata())) == ([10, 20], [1.0, 0.5])
    assert max(line.get_linewidth() for line in seeds) < median.get_linewidth()
    assert trained.get_xdata()[0] == 9
    note = figure.get_suptitle().replace("\n", " ")
    assert "median of the seeds 0, 1, 2; thin: each seed" in note
    assert "at length 20, or at 40 where" in note


def test_no_two_of_many_models_look_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [toy_result(f"model {number}") for number in range(12)]
    (axes,) = drawn(monkeypatch, lambda path: plot_sequence_accuracy(results, path), tmp_path / "curves.png").axes
    assert len({(to_rgb(line.get_color()), line.get_linestyle()) for line in axes.lines[:12]}) == 12


def test_seeds_that_diverged_are_counted_in_the_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [toy_result(), replace(toy_result(seed=1), **DIVERGED), toy_result("DeltaNet [0, 1]")]
    results += [replace(toy_result("full matrix", seed=seed), **DIVERGED) for seed in (0, 1)]
    (axes,) = drawn(monkeypatch, lambda path: plot_sequence_accuracy(results, path), tmp_path / "curves.png").axes
    names = ["DeltaNet [-1, 1]; 1 of 2 diverged", "DeltaNet [0, 1]", "full matrix: diverged", "longest in training: 9"]
    assert labels(axes) == names
    assert [len(line.get_xdata()) for line in axes.lines] == [2, 2, 0, 2]


def test_every_value_is_within_the_limits_and_no_series_has_the_colour_of_the_training_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [with_curve(toy_result(f"model {number}"), (1.0, 0.5, 0.02 * number), every=8) for number in range(11)]

    def plot(path: str) -> None:
        plot_scaled_accuracy(results, path, models="two layers")

    figure = drawn(monkeypatch, plot, tmp_path / "curves.png")
    (axes,) = figure.axes
    *curves, trained = axes.lines
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert low < -1
    for curve in curves:
        assert all(left < length < right for length in curve.get_xdata())
        assert all(low < value < high for value in curve.get_ydata())
    assert to_rgb(trained.get_color()) not in {to_rgb(curve.get_color()) for curve in curves}
    assert len({(curve.get_marker(), to_rgb(curve.get_color()), curve.get_markevery()) for curve in curves}) == 11
    assert axes.get_legend().get_title().get_text() == "two layers"
    assert (axes.get_xlabel(), axes.get_title()) == ("sequence length (tokens)", "parity")
    assert axes.get_ylabel() == "scaled accuracy (0: guessing), mean over lengths within ±10%"
    assert figure.get_suptitle() == "one seed: 0; curves end where the test stopped, at length 24"


def test_accuracies_are_averaged_over_lengths_that_are_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = [0.5 + length % 2 / 2 for length in range(1, 41)]  # right at every odd length
    results = [with_curve(toy_result(), heights)]
    (axes,) = drawn(monkeypatch, lambda path: plot_scaled_accuracy(results, path), tmp_path / "curves.png").axes
    values = axes.lines[0].get_ydata()
    assert list(values[:9]) == pytest.approx([length % 2 for length in range(1, 10)])
    assert values[9] == pytest.approx(2 / 3)  # of lengths 9, 10, 11 two are right
    assert values[29] == pytest.approx(statistics.fmean(length % 2 for length in range(27, 34)))
