"""Figure 4 (workshop version; the ICLR version has it as well): perplexity of DeltaNet by position on four texts, both ranges.

Trained on 2048 tokens, tested far beyond. The wide range is better on code and mathematics, where states must be tracked.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import Experiment, Score
from eigentrack.experiments.language_models import (
    DELTANET,
    DIFFERENCES,
    PANEL,
    SETTINGS,
    LanguageSettings,
    language_cells,
    prepare_text,
)
from eigentrack.experiments.language_plots import plot_perplexities
from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.language_tables import perplexity_table

PAPER_VALUES = {
    "DeltaNet [0, 1]": "the baseline",
    "DeltaNet [-1, 1]": "lower on code and mathematics, slightly higher on TriviaQA, the same on SlimPajama",
}


def _cells(settings: LanguageSettings, seeds: Sequence[int]) -> list[Cell]:
    return language_cells(settings, seeds, DELTANET, "perplexity")


def _table(results: Sequence[LanguageResult]) -> str:
    return perplexity_table(results, PAPER_VALUES)


EXPERIMENT = Experiment(
    name="figure4",
    title="DeltaNet language models: perplexity by position, beyond the training length",
    source="Figure 4, workshop version; its curves are described here in words",
    settings=SETTINGS,
    cells=_cells,
    score=Score("validation loss", lambda result: result.last_loss),
    plot=plot_perplexities,
    paper={"paper": {(PANEL, series): value for series, value in PAPER_VALUES.items()}},
    paper_budget=SETTINGS["paper"],
    differences=DIFFERENCES,
    every_rate=True,
    table=_table,
    prepare=prepare_text,
)
