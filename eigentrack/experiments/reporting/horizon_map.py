"""Heat map of horizons: a row for each task, a column for each model, and in each field what theory says of it.

✓ can · ✗ cannot · ? unknown, in theory; the number is the median horizon over the seeds, below it their lowest and highest.
A field is bold where a seed has learned the task, and grey without a number where every seed diverged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.running.task_cell import REACH, CellResult, learned

CAPTION = (
    "Each field has the horizon of a model (horizontal) on a task (vertical), the length up to which 99 % of the answers are "
    "right, and what theory says (✓ can, ✗ cannot, ? unknown); brighter is longer, and the line in the colour bar marks the "
    "longest training length."
)
MARKS = {"can": "✓", "cannot": "✗", "unknown": "?", "–": "–"}
APART = 1.35  # ratio of two lengths whose ticks do not touch


def plot_horizons(results: Sequence[CellResult], path: str, *, answer: Callable[[str, str], str]) -> None:
    """Draw the map; `answer(panel, series)` returns can, cannot, unknown, or – where theory is not asked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    runs = {
        (panel, model): [result for result in results if result.key == (panel, model)] for panel in panels for model in series
    }
    longest, trained_to = max(result.scores.longest for result in results), max(result.trained_to for result in results)
    width = 4.5 + 0.95 * len(series)
    figure, axes = pyplot.subplots(figsize=(width, 3.2 + 0.42 * len(panels)), layout="constrained")
    brightest = max(1.0, math.log10(max(1, longest)))
    shades = [[_shade(runs[panel, model]) for model in series] for panel in panels]
    colours = pyplot.colormaps["viridis"].with_extremes(bad="0.85")
    image = axes.imshow(shades, vmin=0, vmax=brightest, cmap=colours, aspect="auto")
    for y, panel in enumerate(panels):
        for x, model in enumerate(series):
            if field := runs[panel, model]:
                dark = shades[y][x] <= 0.6 * brightest  # never so where all diverged: NaN
                text, weight = f"{MARKS[answer(panel, model)]} {_numbers(field)}", "bold" if learned(field) else "normal"
                ink = {"color": "white" if dark else "black", "fontweight": weight}
                axes.text(x, y, text, ha="center", va="center", fontsize="x-small", fontdict=ink)
    axes.set_xticks(range(len(series)), series, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(panels)), _rows(results, panels))
    axes.set(xlabel="model", ylabel="task")
    figure.suptitle(_legend(results, longest, trained_to), fontsize="small")
    bar = figure.colorbar(image, ax=axes)
    bar.set_label("horizon (tokens, logarithmic)", labelpad=12)
    ticks = _ticks(longest, trained_to)
    names = [f"{tick:,}, trained to" if tick == trained_to else f"{tick:,}" for tick in ticks]
    bar.set_ticks([math.log10(tick) for tick in ticks], labels=names)
    bar.ax.axhline(math.log10(trained_to), color="black", linewidth=2)
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _tested(runs: Sequence[CellResult]) -> list[CellResult]:
    """Return the runs that were tested, which are those that did not diverge."""
    return [run for run in runs if run.scores.longest]


def _shade(runs: Sequence[CellResult]) -> float:
    return math.log10(max(1, statistics.median(run.scores.horizon for run in runs))) if _tested(runs) else math.nan


def _numbers(runs: Sequence[CellResult]) -> str:
    diverged, horizons = len(runs) - len(_tested(runs)), [run.scores.horizon for run in runs]
    if diverged == len(runs):
        return "diverged"
    middle = f"{statistics.median(horizons):,.0f}"
    if len(runs) == 1:
        return middle
    return f"{middle}\n({min(horizons):,}–{max(horizons):,})" + (f"\n{diverged} diverged" if diverged else "")


def _rows(results: Sequence[CellResult], panels: Sequence[str]) -> list[str]:
    """Return the names of the tasks, with a remark at those that were trained for longer than others."""
    steps = {panel: max(result.steps for result in results if result.panel == panel) for panel in panels}
    usual = min(steps.values())
    return [panel if steps[panel] == usual else f"{panel} ({steps[panel] / usual:.3g} × the steps)" for panel in panels]


def _legend(results: Sequence[CellResult], longest: int, trained_to: int) -> str:
    seeds = sorted({result.seed for result in results})
    number = "median over the seeds (lowest–highest)" if len(seeds) > 1 else f"the only seed, {seeds[0]}"
    diverged = "" if len(_tested(results)) == len(results) else "; a run that diverged counts as 0, grey: all did"
    return (
        f"horizon: length up to which 99 % of the answers are right; trained to {trained_to}, tested to {longest:,}\nnumber: "
        f"{number}{diverged}\nbold: a seed is right to {REACH} times the training length\ntheory: ✓ can, ✗ cannot, ? unknown, "
        "– not asked"
    )


def _ticks(longest: int, trained_to: int) -> list[int]:
    """Return powers of ten, the trained and the longest length, without powers that would touch one of these two."""
    named = sorted({trained_to, max(longest, trained_to)})
    powers = [10**power for power in range(1 + int(math.log10(named[-1])))]
    return sorted({*named, *(power for power in powers if all(max(power, n) / min(power, n) > APART for n in named))})
