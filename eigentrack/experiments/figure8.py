"""Figure 8 (workshop version, appendix E.4.3): Figure 4 for Mamba. There the wide range makes the perplexity worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eigentrack.experiments import figure4
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.language_models import MAMBA, PANEL, LanguageSettings, language_cells
from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.language_tables import perplexity_table

PAPER_VALUES = {"Mamba [0, 1]": "the baseline", "Mamba [-1, 1]": "higher, on code and mathematics"}


def _cells(settings: LanguageSettings, seeds: Sequence[int]) -> list[Cell]:
    return language_cells(settings, seeds, MAMBA, "perplexity")


def _table(results: Sequence[LanguageResult]) -> str:
    return perplexity_table(results, PAPER_VALUES)


EXPERIMENT = replace(
    figure4.EXPERIMENT,
    name="figure8",
    title="Mamba language models: perplexity by position, beyond the training length",
    source="Figure 8, workshop version; its curves are described here in words",
    cells=_cells,
    paper={"paper": {(PANEL, series): value for series, value in PAPER_VALUES.items()}},
    table=_table,
)
