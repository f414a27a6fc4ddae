"""Pictures of language experiments: perplexity by position, and learning curves. [0, 1] is dotted, [-1, 1] solid."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from eigentrack.experiments.language_result import LanguageResult


def plot_perplexities(results: Sequence[LanguageResult], path: str) -> None:
    """A picture for each text; medians over the seeds."""
    texts = list(dict.fromkeys(text for result in results for text in result.perplexities))
    figure, grid = _subplots(max(1, len(texts)))
    for axes, text in zip(grid, texts, strict=False):
        for number, series in enumerate(_series(results)):
            curves = [
                result.perplexities[text] for result in results if result.series == series and text in result.perplexities
            ]
            if curves:
                values = [statistics.median(point.perplexity for point in points) for points in zip(*curves, strict=True)]
                axes.plot([point.position for point in curves[0]], values, label=series, **_style(series, number))
        for length in {result.trained_to for result in results}:
            axes.axvline(length, color="tab:red", linestyle="--", linewidth=1, label=f"training length: {length:,}")
        axes.set(title=text, xlabel="position (tokens)", yscale="log")
    _finish(figure, grid, "perplexity", path)


def plot_learning(results: Sequence[LanguageResult], path: str) -> None:
    """Loss while training, on the validation split where there is one, and the highest gradient norm; every seed by itself."""
    figure, grid = _subplots(2)
    for number, series in enumerate(_series(results)):
        for nth, result in enumerate([result for result in results if result.series == series]):
            style = {**_style(series, number), "label": series if nth == 0 else None}
            validated = [point for point in result.learning if point.validation_loss is not None] or result.learning
            losses = [point.loss if point.validation_loss is None else point.validation_loss for point in validated]
            grid[0].plot([point.tokens for point in validated], losses, **style)
            grid[1].plot([point.tokens for point in result.learning], [p.gradient_norm for p in result.learning], **style)
    grid[0].set(title="loss (validation)", xlabel="tokens seen")
    grid[1].set(title="gradient norm", xlabel="tokens seen", yscale="log")
    _finish(figure, grid, "", path)


def _series(results: Sequence[LanguageResult]) -> list[str]:
    return list(dict.fromkeys(result.series for result in results))


def _style(series: str, number: int) -> dict[str, Any]:
    return {"color": f"C{number // 2}", "linestyle": ":" if "[0, 1]" in series else "-", "linewidth": 1.8}


def _subplots(count: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(1, count, figsize=(2 + 4 * count, 4), squeeze=False, layout="constrained")
    return figure, grid[0]


def _finish(figure: Any, grid: Any, label: str, path: str) -> None:
    from matplotlib import pyplot

    grid[0].set_ylabel(label)
    for axes in grid:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="x-small", frameon=False)
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)
