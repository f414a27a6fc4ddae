"""Curves over the sequence length, one picture for each panel: every seed as a thin line, their median as a thick one."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.length_test import CurvePoint

Curve = tuple[list[int], list[float]]


def plot_scaled_accuracy(results: Sequence[CellResult], path: str) -> None:
    def scaled(result: CellResult, point: CurvePoint) -> float:
        return (point.accuracy - 1 / result.scores.classes) / (1 - 1 / result.scores.classes)

    _plot(results, path, scaled, "scaled accuracy (0: guessing)")


def plot_sequence_accuracy(results: Sequence[CellResult], path: str) -> None:
    _plot(results, path, lambda _, point: point.sequence_accuracy, "sequence accuracy (all answers right so far)")


def _plot(results: Sequence[CellResult], path: str, value: Callable[[CellResult, CurvePoint], float], label: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = list(dict.fromkeys(result.panel for result in results))
    models = list(dict.fromkeys(_model(result.series) for result in results))
    colour = {model: f"C{number}" for number, model in enumerate(models)}
    figure, grid = pyplot.subplots(1, len(panels), figsize=(2 + 4 * len(panels), 4.8), squeeze=False, sharey=True)
    for axes, panel in zip(grid[0], panels, strict=True):
        inside = [result for result in results if result.panel == panel and result.scores.curve]
        for series in dict.fromkeys(result.series for result in inside):
            curves = [_curve(result, value) for result in inside if result.series == series]
            style = {"color": colour[_model(series)], "linestyle": ":" if "[0, 1]" in series else "-"}
            if len(curves) > 1:
                for lengths, values in curves:
                    axes.plot(lengths, values, linewidth=0.6, alpha=0.5, **style)
            axes.plot(*_median(curves), linewidth=1.8, label=_label(series, panel, results), **style)
        for trained_to in {result.trained_to for result in inside}:
            axes.axvline(trained_to, color="tab:red", linestyle="--", linewidth=1, label=f"longest in training: {trained_to}")
        axes.set(title=panel, xlabel="sequence length (tokens)", xscale="log", ylim=(-0.1, 1.05))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="x-small", frameon=False)
    grid[0][0].set_ylabel(label)
    figure.savefig(path, format="png", dpi=130, bbox_inches="tight")
    pyplot.close(figure)


def _label(series: str, panel: str, results: Sequence[CellResult]) -> str:
    """A run that diverged has no curve, and its median would be better than it was."""
    runs = [result for result in results if result.key == (panel, series)]
    diverged = sum(not result.scores.curve for result in runs)
    return f"{series}; {diverged} of {len(runs)} diverged" if diverged else series


def _model(series: str) -> str:
    """Both ranges of a model have one colour."""
    return re.sub(r"\[.*?\]", "", series)


def _curve(result: CellResult, value: Callable[[CellResult, CurvePoint], float]) -> Curve:
    return [point.length for point in result.scores.curve], [value(result, point) for point in result.scores.curve]


def _median(curves: Sequence[Curve]) -> Curve:
    """As far as every seed was tested: up to there at the same lengths, but a seed that has failed is not tested further."""
    values = [statistics.median(at_a_length) for at_a_length in zip(*(values for _, values in curves), strict=False)]
    return curves[0][0][: len(values)], values
