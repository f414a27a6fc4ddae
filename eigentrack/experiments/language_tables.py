"""Tables of language experiments, in Markdown: a row for each model, medians over its seeds, and what the paper found."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.markdown_table import markdown_table

Column = Callable[[LanguageResult], float | None]


def table_of(results: Sequence[LanguageResult], columns: dict[str, Column], paper: dict[str, str]) -> str:
    """`paper` has its values by series; columns that no result has a value for are left out."""
    shown = {title: of for title, of in columns.items() if any(of(result) is not None for result in results)}
    head = ["model", "parameters", "seeds", *shown, "paper"]
    rows = []
    for series in dict.fromkeys(result.series for result in results):
        runs = [result for result in results if result.series == series]
        entries = [series, f"{max(run.parameters for run in runs):,}", str(len(runs))]
        entries += [_median(runs, of) for of in shown.values()]
        rows.append([*entries, paper.get(series, "–")])
    diverged = [f"- {run.series}, seed {run.seed}: diverged at step {run.diverged_at}" for run in results if run.diverged_at]
    return "\n".join([*markdown_table(head, rows), "", *diverged, ""])


def perplexity_table(results: Sequence[LanguageResult], paper: dict[str, str]) -> str:
    """On each text: at the positions up to the training length, and at the last ones."""
    columns: dict[str, Column] = {}
    for text in dict.fromkeys(text for result in results for text in result.perplexities):
        columns[f"{text}: trained lengths"] = lambda result, text=text: _within(result, text)  # type: ignore[misc]
        columns[f"{text}: at the end"] = lambda result, text=text: _last(result, text)  # type: ignore[misc]
    return "Perplexity, medians over the seeds.\n\n" + table_of(results, columns, paper)


def _within(result: LanguageResult, text: str) -> float | None:
    """The geometric mean over the stretches that end within the training length, or the first if none does."""
    curve = result.perplexities.get(text, ())
    inside = [point.perplexity for point in curve if point.position <= result.trained_to] or [p.perplexity for p in curve[:1]]
    return statistics.geometric_mean(inside) if inside else None


def _last(result: LanguageResult, text: str) -> float | None:
    curve = result.perplexities.get(text, ())
    return curve[-1].perplexity if curve else None


def _median(runs: Sequence[LanguageResult], of: Column) -> str:
    values = [value for run in runs if (value := of(run)) is not None]
    return f"{statistics.median(values):.4g}" if values else "–"
