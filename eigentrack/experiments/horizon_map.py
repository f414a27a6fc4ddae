"""Heat map of horizons: a row for each task, a column for each model, and in each field what theory says of it.

✓ can · ✗ cannot · ? unknown, in theory; the number is the median horizon over the seeds, below it their lowest and highest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.cell import CellResult

MARKS = {"can": "✓", "cannot": "✗", "unknown": "?", "–": "–"}


def plot_horizons(results: Sequence[CellResult], path: str, *, answer: Callable[[str, str], str]) -> None:
    """`answer(panel, series)`: can, cannot, unknown, or – where theory is not asked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    horizons = {
        (panel, model): [result.scores.horizon for result in results if result.key == (panel, model)]
        for panel in panels
        for model in series
    }
    longest, trained_to = max(result.scores.longest for result in results), max(result.trained_to for result in results)
    figure, axes = pyplot.subplots(figsize=(4 + 0.95 * len(series), 2.4 + 0.42 * len(panels)), layout="constrained")
    brightest = max(1.0, math.log10(longest))
    shades = [[_shade(horizons[panel, model]) for model in series] for panel in panels]
    image = axes.imshow(shades, vmin=0, vmax=brightest, cmap="viridis", aspect="auto")
    for y, panel in enumerate(panels):
        for x, model in enumerate(series):
            if seeds := horizons[panel, model]:
                ink = "black" if shades[y][x] > 0.6 * brightest else "white"
                text = f"{MARKS[answer(panel, model)]} {_numbers(seeds)}"
                axes.text(x, y, text, color=ink, ha="center", va="center", fontsize="x-small")
    axes.set_xticks(range(len(series)), series, rotation=35, ha="right")
    axes.set_yticks(range(len(panels)), panels)
    axes.set_title(
        f"horizon: length up to which 99 % of the answers are right; trained to {trained_to}, tested to {longest}\n"
        "theory: ✓ can, ✗ cannot, ? unknown, – not asked; number: median over the seeds (lowest–highest)",
        fontsize="small",
    )
    bar = figure.colorbar(image, ax=axes, label="horizon (tokens)")
    ticks = sorted({1, 10, trained_to, *(10**power for power in range(2, 1 + int(math.log10(max(10, longest))))), longest})
    bar.set_ticks([math.log10(max(1, tick)) for tick in ticks], labels=[_tick(tick, trained_to) for tick in ticks])
    bar.ax.axhline(math.log10(trained_to), color="red", linewidth=2)
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _shade(seeds: Sequence[int]) -> float:
    return math.log10(max(1, statistics.median(seeds))) if seeds else math.nan


def _numbers(seeds: Sequence[int]) -> str:
    middle = f"{statistics.median(seeds):,.0f}"
    return middle if len(seeds) == 1 else f"{middle}\n({min(seeds):,}–{max(seeds):,})"


def _tick(length: int, trained_to: int) -> str:
    return f"{length:,}, trained to" if length == trained_to else f"{length:,}"
