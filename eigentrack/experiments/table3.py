"""Table 3 (best of the seeds) and Table 5 (median ± median absolute deviation): seven models, three tasks, rates × seeds.

The learning rate is chosen by the median over the seeds, as in the paper, but on validation sequences of the training lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment
from eigentrack.experiments.paper_agreement import budget_lines, number_lines_by_panel


def findings(results: Sequence[CellResult]) -> list[str]:
    """Column by column, beside the paper's last version."""
    lines = number_lines_by_panel(results, chomsky.PAPER_VALUES["paper, ICLR: best [median]"])
    return lines + budget_lines(results, chomsky.PAPER.training.steps)


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
    findings=findings,
    differences=chomsky.DIFFERENCES,
)
