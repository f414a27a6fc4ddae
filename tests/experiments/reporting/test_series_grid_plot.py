"""A small picture for each model, read back from the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.reporting.series_grid_plot import plot_each_series
from tests.experiments.figures import drawn
from tests.experiments.reporting.test_curve_plot import DIVERGED, with_curve
from tests.experiments.toy import toy_result


def test_the_models_of_one_task_go_on_in_the_next_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = {0: (1.0, 1.0, 0.9), 1: (1.0, 0.8, 0.1), 2: (1.0, 0.9, 0.5)}
    results = [
        replace(with_curve(toy_result(f"model {number}", seed=seed), curve, every=20), steps=100 * (1 + number // 5))
        for number in range(6)
        for seed, curve in heights.items()
    ]
    figure = drawn(monkeypatch, lambda path: plot_each_series(results, path, models="two layers"), tmp_path / "grid.png")
    assert [axes.get_title() for axes in figure.axes[:5]] == [f"model {number} (100 steps)" for number in range(5)]
    assert figure.axes[5].get_title() == "model 5 (200 steps)"
    assert [axes.axison for axes in figure.axes] == [True] * 6 + [False] * 2
    trained, *seeds, median = figure.axes[0].lines
    assert list(trained.get_xdata()) == [9, 9]
    assert [list(line.get_ydata()) for line in seeds] == [pytest.approx([2 * y - 1 for y in ys]) for ys in heights.values()]
    assert list(median.get_ydata()) == pytest.approx([1.0, 0.8, 0.0])
    assert figure.axes[0].get_xscale() == "linear"  # from 20 to 60
    low, high = figure.axes[0].get_ylim()
    assert low < -0.8 < 1 < high  # seed 1 is wrong in one way
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "parity; two layers"
    assert [text.get_text() for text in legend.get_texts()] == [
        *("longest in training: 9", "seed 0", "seed 1", "seed 2", "median")
    ]


def test_several_tasks_go_down_and_what_diverged_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [
        replace(with_curve(toy_result(model), (1.0, 0.7, 0.6)), panel=panel) for panel in ("Z2", "Z3") for model in ("a", "b")
    ]
    results[3] = replace(results[3], **DIVERGED)
    figure = drawn(monkeypatch, lambda path: plot_each_series(results, path), tmp_path / "grid.png")
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes] == ["Z2", "", "Z3", ""]
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [[], [], [], ["1 of 1 diverged"]]
