"""Curves over the sequence length, a small picture for each model: where ten models in one picture would cover each other.

Tasks go down and models go right; the models of a single task go on in the next row.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from eigentrack.experiments.reporting.curve_plot import DASHED, SCALED, curve_of, length_scale, median_curve, scaled_accuracies
from eigentrack.experiments.running.task_cell import CellResult

CAPTION = (
    "Scaled accuracy (vertical; 0 is guessing, 1 is perfect) by sequence length (horizontal), in one picture for each model "
    f"with a line for each seed and a grey one for their median; {DASHED}."
)
IN_A_ROW = 4  # models of a single task
SIZE = (2.3, 1.75)  # width and height of a picture, in inches
TITLE = 34  # letters in a line


def plot_each_series(results: Sequence[CellResult], path: str, *, models: str = "") -> None:
    """Draw a small picture for each model; `models` says what the names of the series leave out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    fields = [(panel, name) for panel in panels for name in series]
    columns = IN_A_ROW if len(panels) == 1 else len(series)
    rows = -(-len(fields) // columns)
    size = (0.8 + SIZE[0] * columns, 1.6 + SIZE[1] * rows)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained")
    places = list(grid.flat)
    for axes, (panel, name) in zip(places, fields, strict=False):
        _draw(axes, [result for result in results if result.key == (panel, name)], length_scale(results))
    lowest = min((min(line.get_ydata()) for axes in places for line in axes.lines), default=0.0)
    places[0].set_ylim(min(lowest, 0) - 0.05, 1.05)  # for all; a network that is wrong in one way scores below 0
    for place, name in zip(places, series, strict=False):  # with several panels, the first row has the names
        place.set_title(textwrap.fill(name + _steps(results, name), TITLE), fontsize="x-small")
    if len(panels) > 1:
        for place, panel in zip(grid[:, 0], panels, strict=True):
            place.set_ylabel(panel, fontsize="small")
    for axes in places[len(fields) :]:
        axes.set_axis_off()
    for axes in places[max(0, len(fields) - columns) : len(fields)]:
        axes.xaxis.set_tick_params(labelbottom=True)  # also above a place that is empty
    lines = {label: line for axes in places for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    title = f"{panels[0]}; {models}" if len(panels) == 1 else models
    figure.legend(lines.values(), lines, title=title, loc="outside upper center", ncols=5, frameon=False, fontsize="small")
    figure.supxlabel("sequence length (tokens)", fontsize="medium")
    figure.supylabel(SCALED, fontsize="medium")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _steps(results: Sequence[CellResult], series: str) -> str:
    """Return the number of steps of this series in brackets, or nothing where all series have the same number."""
    if len({run.steps for run in results}) == 1:
        return ""
    return f" ({max(run.steps for run in results if run.series == series):,} steps)"


def _draw(axes: Any, runs: Sequence[CellResult], scale: str) -> None:
    axes.set_xscale(scale)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize="x-small")
    for trained_to in {run.trained_to for run in runs}:
        axes.axvline(trained_to, color="black", linestyle="--", linewidth=1, label=f"longest in training: {trained_to}")
    curves = []
    for run in runs:
        if curve := curve_of(run, scaled_accuracies):
            curves.append(curve)
            axes.plot(*curve, color=f"C{run.seed}", linewidth=1.1, label=f"seed {run.seed}")
    if len(curves) > 1:
        axes.plot(*median_curve(curves), color="black", linewidth=2.2, alpha=0.55, label="median")
    if len(curves) < len(runs):
        axes.text(0.5, 0.5, f"{len(runs) - len(curves)} of {len(runs)} diverged", transform=axes.transAxes, ha="center")
