"""Figure 1 (the same in the workshop and the ICLR version): parity, both ranges, by sequence length; Table 3's first column.

The paper draws Mamba alone; the other models of the column are added, and every curve goes on beyond length 256.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Settings


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return chomsky.chomsky_cells(settings, seeds, panels=(chomsky.PARITY,))


EXPERIMENT = Experiment(
    name="figure1",
    title="Parity: only a negative eigenvalue, or a non-linear recurrence, tracks it",
    source="Figure 1 and the first column of Table 3, workshop and ICLR version",
    settings=chomsky.SETTINGS,
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=chomsky.PAPER_VALUES,
    differences=chomsky.DIFFERENCES,
)
