"""Curves over the sequence length, one picture for each panel: every seed as a thin line, their median as a thick one.

They begin at the shortest length that training asks for and that is tested by itself.

Curves that lie on each other stay visible: later ones are thinner, and the markers of each stand at places of their own.
"""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from eigentrack.experiments.running.length_test import CurvePoint
from eigentrack.experiments.running.task_cell import CellResult

Curve = tuple[list[int], list[float]]
ValuesOf = Callable[[CellResult, Sequence[CurvePoint]], list[float]]

NEAR = 0.1  # accuracies are averaged over lengths so near, as a share of the length: some alternate from one to the next
MARKERS = "osD^vP*X<>"
COLOURS = 10  # matplotlib's colours; the ten models after the first ten are dashed
MARKED_EVERY = 0.32  # the distance of two marks along a curve, as a share of the panel's diagonal
WIDEST, NARROWEST = 3.2, 1.5  # lines of the medians
DECADE = 10
LONG_LABEL = 32  # letters, of which two do not fit under a panel side by side
DASHED = "the dashed line marks the longest training length"
SCALED_CAPTION = (
    "Scaled accuracy (vertical; 0 is guessing, 1 is perfect) by sequence length (horizontal), with a thick line for the median "
    f"over the seeds and thin ones for each seed; {DASHED}."
)
SEQUENCE_CAPTION = (
    "Share of the sequences whose answers are all right (vertical) by sequence length (horizontal), with a thick line for the "
    f"median over the seeds and thin ones for each seed; {DASHED}."
)
SCALED = f"scaled accuracy (0: guessing), mean over lengths within ±{NEAR:.0%}"


def plot_scaled_accuracy(results: Sequence[CellResult], path: str, *, models: str = "") -> None:
    """Draw scaled accuracy by length; `models`, the legend's title, says what the names of the series leave out."""

    _plot(results, path, scaled_accuracies, SCALED, models)


def plot_sequence_accuracy(results: Sequence[CellResult], path: str, *, models: str = "") -> None:
    def unbroken(_: CellResult, points: Sequence[CurvePoint]) -> list[float]:
        return [point.sequence_accuracy for point in points]

    _plot(results, path, unbroken, "sequence accuracy (all answers right so far)", models)


def scaled_accuracies(result: CellResult, points: Sequence[CurvePoint]) -> list[float]:
    guess = 1 / result.scores.classes
    return [(accuracy - guess) / (1 - guess) for accuracy in _near_means(points)]


def curve_of(result: CellResult, values_of: ValuesOf) -> Curve | None:
    """Return the lengths and values of a run, or None if it diverged."""
    points = _asked(result)
    return ([point.length for point in points], values_of(result, points)) if points else None


def length_scale(results: Sequence[CellResult]) -> str:
    """Return the scale of the axis of lengths, linear below a decade, where a logarithmic axis has hardly a number."""
    lengths = [point.length for result in results for point in _asked(result)] or [1]
    return "log" if max(lengths) > DECADE * min(lengths) else "linear"


def _asked(result: CellResult) -> list[CurvePoint]:
    return [point for point in result.scores.curve if point.length >= result.scores.asked_from]


def _plot(
    results: Sequence[CellResult],
    path: str,
    values_of: ValuesOf,
    label: str,
    models: str,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = list(dict.fromkeys(result.panel for result in results))
    styles = _styles(list(dict.fromkeys(result.series for result in results)))
    width = 2 + 4 * len(panels)
    figure, grid = pyplot.subplots(1, len(panels), figsize=(width, 5.2), squeeze=False, sharey=True)
    for axes, panel in zip(grid[0], panels, strict=True):
        inside = [result for result in results if result.panel == panel]
        for series in dict.fromkeys(result.series for result in inside):
            runs = [result for result in inside if result.series == series]
            curves = [curve for run in runs if (curve := curve_of(run, values_of))]
            drawn = sum(bool(run.scores.curve) for run in runs)
            _draw(axes, curves, styles[series], f"{series}{_diverged(len(runs), drawn)}")
        for trained_to in sorted({result.trained_to for result in inside}):
            axes.axvline(trained_to, color="black", linestyle="--", linewidth=1, label=f"longest in training: {trained_to}")
        axes.set(title=panel, xlabel="sequence length (tokens)", xscale=length_scale(inside))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        names = axes.get_legend_handles_labels()[1]
        look = {"frameon": False, "fontsize": "x-small", "title_fontsize": "x-small"}
        look["ncols"] = 1 if max(map(len, names)) > LONG_LABEL else 2
        axes.legend(title=models or None, loc="upper center", bbox_to_anchor=(0.5, -0.14), **look)
    grid[0][0].set_ylabel(label)
    note = textwrap.fill(_note(results), int(14 * width))
    figure.suptitle(note, x=0.5, y=0.94, va="bottom", fontsize="small")
    figure.savefig(path, format="png", dpi=130, bbox_inches="tight")
    pyplot.close(figure)


def _styles(series: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the style of each series: both ranges of a model have one colour, and [0, 1] is dotted and drawn on top."""
    models = list(dict.fromkeys(map(_model, series)))
    styles = {}
    for number, name in enumerate(series):
        place, dotted = models.index(_model(name)), "[0, 1]" in name
        line = ":" if dotted else "-" if place < COLOURS else "--"
        styles[name] = {
            **{"color": f"C{place}", "linestyle": line, "zorder": 2.6 if dotted else 2.4},
            **{"marker": MARKERS[place % len(MARKERS)], "markerfacecolor": "white" if dotted else f"C{place}"},
            **{"markersize": 4.5, "markevery": (MARKED_EVERY * number / len(series), MARKED_EVERY)},
            "linewidth": WIDEST - (WIDEST - NARROWEST) * number / max(1, len(series) - 1),
        }
    return styles


def _draw(axes: Any, curves: Sequence[Curve], style: dict[str, Any], label: str) -> None:
    """Draw the seeds and their median; a series without a curve has its name in the legend, and no line."""
    if len(curves) > 1:
        for lengths, values in curves:
            axes.plot(lengths, values, color=style["color"], linestyle=style["linestyle"], linewidth=0.9, alpha=0.6)
    if curves:
        axes.plot(*median_curve(curves), label=label, **style)
    else:
        axes.plot([], [], linestyle="", label=label)


def _diverged(runs: int, curves: int) -> str:
    """Say how many runs diverged: they have no curve, so that the median that is drawn is too good."""
    if curves == runs:
        return ""
    return f"; {runs - curves} of {runs} diverged" if curves else ": diverged"


def _note(results: Sequence[CellResult]) -> str:
    """Say which line is what, and why curves end."""
    seeds = sorted({result.seed for result in results})
    ends = sorted({result.scores.longest for result in results if result.scores.curve})
    named = ", ".join(map(str, seeds))
    what = f"thick, with markers: median of the seeds {named}; thin: each seed" if len(seeds) > 1 else f"one seed: {named}"
    if len(ends) < 2:
        return f"{what}; curves end where the test stopped, at length {max(ends, default=0):,}"
    first = ", a median where that of its first seed did" if len(seeds) > 1 else ""
    return (
        f"{what}; curves end where the test stopped{first}: at length {ends[0]:,}, or at {ends[-1]:,} where it was not yet "
        f"settled by {ends[0]:,} how far the model is right"
    )


def _model(series: str) -> str:
    return re.sub(r"\[.*?\]", "", series)


def _near_means(points: Sequence[CurvePoint]) -> list[float]:
    """Return the mean accuracy over the lengths within NEAR of each."""
    return [
        statistics.fmean(other.accuracy for other in points if abs(other.length - point.length) <= NEAR * point.length)
        for point in points
    ]


def median_curve(curves: Sequence[Curve]) -> Curve:
    """Return the median over the seeds, as far as all of them were tested: a seed that has failed is not tested further."""
    values = [statistics.median(at_a_length) for at_a_length in zip(*(values for _, values in curves), strict=False)]
    return curves[0][0][: len(values)], values
