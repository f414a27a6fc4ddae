"""Figure 7 (workshop version, appendix E.4): learning curves of DeltaNet and Mamba in both ranges; they train alike, stably.

The gradient norms are added. All cells are those of Figures 4 and 8; histograms of eigenvalues, betas and gates are in the
metrics of their runs, OUT/language_models/.../metrics.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eigentrack.experiments import figure4
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.language_models import DELTANET, MAMBA, PANEL, LanguageSettings, language_cells
from eigentrack.experiments.language_plots import plot_learning
from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.language_tables import table_of

PAPER_VALUES = {
    **dict.fromkeys((DELTANET[0], MAMBA[0]), "the baseline"),
    **dict.fromkeys((DELTANET[1], MAMBA[1]), "trains as stably; validation perplexity alike, if anything lower"),
}


def _cells(settings: LanguageSettings, seeds: Sequence[int]) -> list[Cell]:
    return language_cells(settings, seeds, (*DELTANET, *MAMBA), "perplexity")


def _table(results: Sequence[LanguageResult]) -> str:
    columns = {
        "loss at the end (validation)": lambda result: result.last_loss if result.learning else None,
        "highest gradient norm": lambda result: max((point.gradient_norm for point in result.learning), default=None),
    }
    return table_of(results, columns, PAPER_VALUES)


EXPERIMENT = replace(
    figure4.EXPERIMENT,
    name="figure7",
    title="Learning curves of DeltaNet and Mamba language models in both ranges",
    source="Figure 7, workshop version; its curves are described here in words",
    cells=_cells,
    plot=plot_learning,
    paper={"paper": {(PANEL, series): value for series, value in PAPER_VALUES.items()}},
    table=_table,
)
