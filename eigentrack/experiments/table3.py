"""Table 3 (best of the seeds) and Table 5 (median ± median absolute deviation): seven models, three tasks, rates × seeds.

The learning rate is chosen by the median over the seeds, as in the paper, but on validation sequences of the training lengths.
"""

from __future__ import annotations

from eigentrack.experiments import chomsky
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment

EXPERIMENT = Experiment(
    name="table3",
    title="Seven models on parity and modular arithmetic, without and with brackets",
    source="Tables 3 and 5, ICLR and workshop version",
    settings=chomsky.SETTINGS,
    cells=chomsky.chomsky_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=chomsky.PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    differences=chomsky.DIFFERENCES,
)
