"""Tables and pictures of language experiments: medians over the seeds beside what the paper found; [0, 1] is drawn dotted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eigentrack.experiments.language.cell import LanguageResult
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.wording import counted, joined

Figure = Callable[[LanguageResult], float | None]
NARROW, WIDE = "[0, 1]", "[-1, 1]"  # how the labels of series end
PERPLEXITY_CAPTION = (
    "Perplexity (vertical, logarithmic; lower is better) by the position in the text (horizontal), one picture for each text, "
    "with dotted lines for [0, 1]; the dashed line marks the training length."
)
LEARNING_CAPTION = (
    "Loss on the validation split (left) and norm of the gradient (right) by the number of tokens seen, with a line for each "
    "seed and dotted lines for [0, 1]."
)


def _twins(results: Sequence[LanguageResult], of: Figure) -> dict[str, tuple[float, float]]:
    """Return by model the medians of a figure in [0, 1] and in [-1, 1], where both have it."""
    medians: dict[str, float] = {}
    for series in _series(results):
        values = [value for run in results if run.series == series and (value := of(run)) is not None]
        medians |= {series: statistics.median(values)} if values else {}
    models = dict.fromkeys(series.rsplit(" [", 1)[0] for series in medians)
    pairs = {model: (f"{model} {NARROW}", f"{model} {WIDE}") for model in models}
    return {model: (medians[n], medians[w]) for model, (n, w) in pairs.items() if n in medians and w in medians}


def lower_at_the_end(results: Sequence[LanguageResult]) -> str:
    """Say on how many texts the wide range has the lower perplexity at the last positions, and where it differs most."""
    texts = dict.fromkeys(text for result in results for text in result.perplexities)
    ends = {
        (model, text): pair
        for text in texts
        for model, pair in _twins(results, lambda result, text=text: _last(result, text)).items()  # type: ignore[misc]
    }
    if not ends:
        return ""
    lower = sum(wide < narrow for narrow, wide in ends.values())
    (model, text), (narrow, wide) = max(ends.items(), key=lambda entry: abs(math.log(entry[1][1] / entry[1][0])))
    return (
        f"At the last positions, beyond the training length, {WIDE} has the lower perplexity on {lower} of "
        f"{counted(len(ends), 'text')}. The difference is largest on {text}, with {wide:.4g} for {model} in {WIDE} and "
        f"{narrow:.4g} in {NARROW}."
    )


def trains_alike(results: Sequence[LanguageResult]) -> str:
    """Say how the losses at the end compare in both ranges, and how many runs diverged."""
    losses = _twins(results, lambda result: result.last_loss if result.learning else None)
    if not losses:
        return ""
    said = joined([f"{wide:.3f} in {WIDE} and {narrow:.3f} in {NARROW} ({model})" for model, (narrow, wide) in losses.items()])
    diverged = sum(result.diverged_at is not None for result in results)
    return f"The loss at the end of training is {said}. {diverged or 'None'} of {counted(len(results), 'run')} diverged."


@dataclass(frozen=True)
class BenchmarkChange:
    """An answer that compares both ranges of each model by a benchmark: the first of these figures that twins have."""

    figures: Mapping[str, Figure]

    def __call__(self, results: Sequence[LanguageResult]) -> str:
        for title, of in self.figures.items():
            if twins := _twins(results, of):
                said = joined(
                    [f"{wide:.3f} in {WIDE} and {narrow:.3f} in {NARROW} for {m}" for m, (narrow, wide) in twins.items()]
                )
                return f"The accuracy on “{title}” is {said}."
        return ""


@dataclass(frozen=True)
class ModelTable:
    """A table with a row for each model: these figures and the paper's words; a figure that no result has is left out."""

    columns: Mapping[str, Figure]
    paper: Mapping[str, str]

    def __call__(self, results: Sequence[LanguageResult]) -> str:
        shown = {title: of for title, of in self.columns.items() if any(of(result) is not None for result in results)}
        head = ["model", "parameters", "seeds", *shown, "paper"]
        rows = []
        for series in _series(results):
            runs = [result for result in results if result.series == series]
            entries = [series, f"{max(run.parameters for run in runs):,}", str(len(runs))]
            entries += [_median(runs, of) for of in shown.values()]
            rows.append([*entries, self.paper.get(series, "–")])
        diverged = [
            f"- {run.series}, seed {run.seed}: diverged at step {run.diverged_at}" for run in results if run.diverged_at
        ]
        return "\n".join([*markdown_table(head, rows), "", *diverged, ""])


@dataclass(frozen=True)
class PerplexityTable:
    """A table of the perplexity on each text, at the positions up to the training length and at the last ones."""

    paper: Mapping[str, str]

    def __call__(self, results: Sequence[LanguageResult]) -> str:
        columns: dict[str, Figure] = {}
        for text in dict.fromkeys(text for result in results for text in result.perplexities):
            columns[f"{text}: trained lengths"] = lambda result, text=text: _within(result, text)  # type: ignore[misc]
            columns[f"{text}: at the end"] = lambda result, text=text: _last(result, text)  # type: ignore[misc]
        return "Perplexity, medians over the seeds.\n\n" + ModelTable(columns, self.paper)(results)


def _within(result: LanguageResult, text: str) -> float | None:
    """Return the geometric mean over the stretches that end within the training length, or the first if none does."""
    curve = result.perplexities.get(text, ())
    inside = [point.perplexity for point in curve if point.position <= result.trained_to] or [p.perplexity for p in curve[:1]]
    return statistics.geometric_mean(inside) if inside else None


def _last(result: LanguageResult, text: str) -> float | None:
    curve = result.perplexities.get(text, ())
    return curve[-1].perplexity if curve else None


def _median(runs: Sequence[LanguageResult], of: Figure) -> str:
    values = [value for run in runs if (value := of(run)) is not None]
    return f"{statistics.median(values):.4g}" if values else "–"


def plot_perplexities(results: Sequence[LanguageResult], path: str) -> None:
    """Draw perplexity by position in one picture for each text, as medians over the seeds."""
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
    """Draw the loss, on the validation split where there is one, and the highest gradient norm of every seed by tokens seen."""
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
