"""Figure 5 of the workshop version (its appendix): mLSTM, sLSTM, Mamba and DeltaNet on the three tasks, by sequence length."""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Settings

MODELS = ("mLSTM", "sLSTM", "Mamba [0, 1]", "Mamba [-1, 1]", "DeltaNet [0, 1]", "DeltaNet [-1, 1]")


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return chomsky.chomsky_cells(settings, seeds, models=MODELS)


EXPERIMENT = Experiment(
    name="figure5",
    title="All recurrent models on parity and modular arithmetic, by length",
    source="Figure 5, workshop version; the values are those of Table 3",
    settings=chomsky.SETTINGS,
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=chomsky.PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    differences=chomsky.DIFFERENCES,
)
