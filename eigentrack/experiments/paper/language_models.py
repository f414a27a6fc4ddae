"""Language models in both ranges: perplexity beyond the training length (Figures 4 and 8), learning curves (Figure 7).

The figures are those of the workshop version. All cells of Figure 7 are those of Figures 4 and 8; histograms of eigenvalues,
betas and gates are in the metrics of their runs, OUT/language_models/.../metrics.jsonl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eigentrack.experiments.design.experiment import Experiment, Key, Panel, Score, Series
from eigentrack.experiments.language.cell import LanguageResult
from eigentrack.experiments.language.report import (
    LEARNING_CAPTION,
    PERPLEXITY_CAPTION,
    ModelTable,
    PerplexityTable,
    lower_at_the_end,
    plot_learning,
    plot_perplexities,
    trains_alike,
)
from eigentrack.experiments.language.settings import DIFFERENCES, SETTINGS, prepare_text

PANEL = Panel("language models", "language-modelling")


def _in_both_ranges(model: str) -> tuple[Series, Series]:
    narrow, wide = (
        Series(f"{model} [{low}, {high}]", {"model": model, "eigenvalues": (low, high)}) for low, high in ((0, 1), (-1, 1))
    )
    return narrow, wide


def paper_words(words: Mapping[str, str]) -> dict[str, dict[Key, str]]:
    """Return what the paper says of each series as the values of an experiment."""
    return {"paper": {(PANEL.label, series): said for series, said in words.items()}}


DELTANET, MAMBA, LARGE = (_in_both_ranges(model) for model in ("DeltaNet", "Mamba", "DeltaNet 1.3B"))

FIGURE_4_WORDS = {
    "DeltaNet [0, 1]": "the baseline",
    "DeltaNet [-1, 1]": "lower on code and mathematics, slightly higher on TriviaQA, the same on SlimPajama",
}
# trained on 2048 tokens, tested far beyond; the wide range is better on code and mathematics, where states must be tracked
FIGURE_4 = Experiment(
    name="figure4",
    title="DeltaNet language models: perplexity by position, beyond the training length",
    question="Does DeltaNet with eigenvalues in [-1, 1] predict long texts better than in [0, 1], beyond the training length?",
    answer=lower_at_the_end,
    source="Figure 4, workshop version; its curves are described here in words",
    settings=SETTINGS,
    family="perplexity",
    panels=(PANEL,),
    series=DELTANET,
    score=Score("validation loss", lambda result: result.last_loss),
    columns=(),
    plot=plot_perplexities,
    caption=PERPLEXITY_CAPTION,
    paper=paper_words(FIGURE_4_WORDS),
    paper_budget=SETTINGS["paper"],
    differences=DIFFERENCES,
    every_rate=True,
    table=PerplexityTable(FIGURE_4_WORDS),
    prepare=prepare_text,
    read_result=LanguageResult.from_json,
)

FIGURE_7_WORDS = {
    **dict.fromkeys(("DeltaNet [0, 1]", "Mamba [0, 1]"), "the baseline"),
    **dict.fromkeys(("DeltaNet [-1, 1]", "Mamba [-1, 1]"), "trains as stably; validation perplexity alike, if anything lower"),
}
FIGURE_7 = replace(
    FIGURE_4,
    name="figure7",
    title="Learning curves of DeltaNet and Mamba language models in both ranges",
    question="Do DeltaNet and Mamba language models train as well with eigenvalues in [-1, 1] as in [0, 1]?",
    answer=trains_alike,
    source="Figure 7, workshop version; its curves are described here in words",
    series=(*DELTANET, *MAMBA),
    plot=plot_learning,
    caption=LEARNING_CAPTION,
    paper=paper_words(FIGURE_7_WORDS),
    table=ModelTable(
        {
            "loss at the end (validation)": lambda result: result.last_loss if result.learning else None,
            "highest gradient norm": lambda result: max((point.gradient_norm for point in result.learning), default=None),
        },
        FIGURE_7_WORDS,
    ),
)

FIGURE_8_WORDS = {"Mamba [0, 1]": "the baseline", "Mamba [-1, 1]": "higher, on code and mathematics"}
FIGURE_8 = replace(
    FIGURE_4,
    name="figure8",
    title="Mamba language models: perplexity by position, beyond the training length",
    question="Does Mamba with eigenvalues in [-1, 1] predict long texts better than with [0, 1], beyond the training length?",
    source="Figure 8, workshop version; its curves are described here in words",
    series=MAMBA,
    paper=paper_words(FIGURE_8_WORDS),
    table=PerplexityTable(FIGURE_8_WORDS),
)
