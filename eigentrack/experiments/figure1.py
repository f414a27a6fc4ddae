"""Figure 1 (the same in the workshop and the ICLR version): parity, both ranges, by sequence length; Table 3's first column.

The paper draws Mamba alone; the other models of the column are added, and every curve goes on beyond length 256.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Settings
from eigentrack.experiments.paper_agreement import budget_lines, number_lines


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return chomsky.chomsky_cells(settings, seeds, panels=(chomsky.PARITY,))


TRACKS = ("sLSTM", "Mamba [-1, 1]", "DeltaNet [-1, 1]")  # in the paper: a non-linear recurrence, or negative eigenvalues


def findings(results: Sequence[CellResult]) -> list[str]:
    by_model = {result.series: [run for run in results if run.series == result.series] for result in results}
    medians = {model: statistics.median(run.scores.scaled_accuracy for run in runs) for model, runs in by_model.items()}
    can, cannot = ({m: median for m, median in medians.items() if (m in TRACKS) == tracks} for tracks in (True, False))
    lines = []
    if can and cannot:
        least, most = min(can, key=lambda m: can[m]), max(cannot, key=lambda m: cannot[m])
        holds = "holds" if can[least] > 0.5 > cannot[most] else "does not hold"
        lines.append(
            f"The paper's division {holds}: with negative eigenvalues or a non-linear recurrence the lowest median is "
            f"{can[least]:.3f} ({least}), without them the highest is {cannot[most]:.3f} ({most})."
        )
    lines += number_lines(results, chomsky.PAPER_VALUES["paper, ICLR: best [median]"], "the paper")
    reach = {m: (statistics.median(run.scores.horizon for run in by_model[m]), by_model[m][0].trained_to) for m in can}
    if reach:
        said = (
            f"{m} to {horizon:,.0f}, {horizon / trained_to:.1f} times the training length"
            for m, (horizon, trained_to) in reach.items()
        )
        lines.append(f"99 % of the answers are right, median over the seeds: {'; '.join(said)}.")
    return lines + budget_lines(results, chomsky.PAPER.training.steps)


EXPERIMENT = Experiment(
    name="figure1",
    title="Parity: only a negative eigenvalue, or a non-linear recurrence, tracks it",
    source="Figure 1 and the first column of Table 3, workshop and ICLR version",
    settings=chomsky.SETTINGS,
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=chomsky.PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    findings=findings,
    differences=chomsky.DIFFERENCES,
)
