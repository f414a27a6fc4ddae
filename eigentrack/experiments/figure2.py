"""Figure 2 of the workshop version: DeltaNet in both ranges on parity and modular arithmetic, by sequence length."""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Settings


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return chomsky.chomsky_cells(settings, seeds, models=("DeltaNet [0, 1]", "DeltaNet [-1, 1]"))


EXPERIMENT = Experiment(
    name="figure2",
    title="DeltaNet in both ranges on parity and modular arithmetic, by length",
    source="Figure 2, workshop version; the values are those of Table 3",
    settings=chomsky.SETTINGS,
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=chomsky.PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    differences=chomsky.DIFFERENCES,
)
