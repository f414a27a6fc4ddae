"""Table 4 (workshop version; of the ICLR version's values WikiText, LAMBADA and the average): lm-eval's benchmarks.

WikiText and LAMBADA by perplexity; LAMBADA, PIQA, HellaSwag, WinoGrande and ARC by accuracy; then recall: SWDE, SQuAD and FDA
by the share of answers that contain the truth. A column is added: programs of swaps, which ask for a state to be tracked.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from eigentrack.experiments.language.cell import LanguageResult
from eigentrack.experiments.language.evaluation import PROGRAMS, LanguageTest
from eigentrack.experiments.language.report import BenchmarkChange, Figure, ModelTable
from eigentrack.experiments.language.settings import SETTINGS
from eigentrack.experiments.paper.language_models import DELTANET, FIGURE_4, LARGE, MAMBA, paper_words
from eigentrack.lm.harness import TABLE_4 as BENCHMARKS
from eigentrack.lm.harness import TABLE_4_RECALL as RECALL_BENCHMARKS

ACCURACY = {
    "LAMBADA": ("lambada_openai", "acc"),
    "PIQA": ("piqa", "acc"),
    "HellaSwag": ("hellaswag", "acc_norm"),
    "WinoGrande": ("winogrande", "acc"),
    "ARC-e": ("arc_easy", "acc"),
    "ARC-c": ("arc_challenge", "acc_norm"),
}
PERPLEXITY = {"WikiText ppl": ("wikitext", "word_perplexity"), "LAMBADA ppl": ("lambada_openai", "perplexity")}
OTHERS = {
    "SWDE": ("swde", "contains"),
    "SQuAD": ("squad_completion", "contains"),
    "FDA": ("fda", "contains"),
    "swaps": (PROGRAMS, "acc"),
}
_WORDS = "{}: WikiText {}, LAMBADA {}, average {}"
PAPER_VALUES = {
    series: "; ".join(_WORDS.format(*version) for version in versions)
    for series, versions in {
        "DeltaNet [0, 1]": (("ICLR", 24.68, 31.49, 46.1), ("workshop", 28.71, 42.63, 43.2)),
        "DeltaNet [-1, 1]": (("ICLR", 24.54, 31.15, 45.8), ("workshop", 29.01, 46.38, 43.0)),
        "Mamba [0, 1]": (("ICLR", 24.84, 24.69, 47.3), ("workshop", 32.04, 42.82, 43.4)),
        "Mamba [-1, 1]": (("ICLR", 25.02, 24.71, 48.2),),
        "DeltaNet 1.3B [0, 1]": (("ICLR", 18.54, 14.32, 53.1),),
        "DeltaNet 1.3B [-1, 1]": (("ICLR", 18.57, 12.73, 52.4),),
    }.items()
}
_TASKS = dict.fromkeys(("short", "paper"), (*BENCHMARKS, *RECALL_BENCHMARKS, PROGRAMS)) | {"smoke": (PROGRAMS,)}
_LIMITS = {"smoke": 40, "short": 500, "paper": None}


def _score(task: str, metric: str) -> Figure:
    return lambda result: result.scores.get(task, {}).get(metric)


def _average(result: LanguageResult) -> float | None:
    found = [_score(*place)(result) for place in ACCURACY.values()]
    values = [value for value in found if value is not None]
    return statistics.mean(values) if len(values) == len(ACCURACY) else None


COLUMNS: dict[str, Figure] = {
    **{title: _score(*place) for title, place in (PERPLEXITY | ACCURACY).items()},
    "average": _average,
    **{title: _score(*place) for title, place in OTHERS.items()},
}


def plot(results: Sequence[LanguageResult], path: str) -> None:
    """Draw accuracies as bars, those of [0, 1] pale beside those of [-1, 1]; they are medians over the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = [title for title in (*ACCURACY, *OTHERS) if any(COLUMNS[title](result) is not None for result in results)]
    models = list(dict.fromkeys(result.series for result in results))
    figure, axes = pyplot.subplots(figsize=(3 + 1.2 * len(titles), 4), layout="constrained")
    for number, series in enumerate(models):
        found = [[COLUMNS[title](result) for result in results if result.series == series] for title in titles]
        heights = [statistics.median([value for value in values if value is not None] or [0.0]) for values in found]
        places = [place + (number - len(models) / 2 + 0.5) * 0.8 / len(models) for place in range(len(titles))]
        alpha = 0.5 if "[0, 1]" in series else 1.0
        axes.bar(places, heights, 0.8 / len(models), color=f"C{number // 2}", alpha=alpha, label=series)
    axes.set_xticks(range(len(titles)), titles)
    axes.set(ylabel="accuracy", ylim=(0, 1))
    axes.legend(fontsize="x-small", frameon=False)
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


TABLE_4 = replace(
    FIGURE_4,
    name="table4",
    title="Benchmarks of language models in both ranges",
    question="Does widening the range of eigenvalues change what language models score on standard benchmarks?",
    answer=BenchmarkChange({title: COLUMNS[title] for title in ("average", *ACCURACY, *OTHERS)}),
    source="Table 4, workshop version; perplexities and the average accuracy in percent, of both versions",
    settings={
        budget: replace(settings, test=LanguageTest(tasks=_TASKS[budget], limit=_LIMITS[budget]))
        for budget, settings in SETTINGS.items()
    },
    family="benchmarks",
    series=(*DELTANET, *MAMBA, *LARGE),
    plot=plot,
    caption="Accuracy (vertical) on each benchmark (horizontal), with pale bars for [0, 1] beside those for [-1, 1].",
    paper=paper_words(PAPER_VALUES),
    table=ModelTable(COLUMNS, PAPER_VALUES),
)
