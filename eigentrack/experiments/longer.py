"""Table 3's columns 1 and 2 for as many steps as the paper's: which of the misses at `short` were a matter of budget?

Where Table 3 at `short` has 10,000 steps of 128, this has 100,000 steps of 128: an eighth of the paper's sequences. On
arithmetic all models are trained; on parity those that the paper finds right to the end, as the others cannot learn it, says
theory. Each model has the rate that the pilot of Table 3 chose for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Settings, grid
from eigentrack.experiments.paper_agreement import budget_lines, horizon_line, number_lines_by_panel

MODELS = {chomsky.PARITY: ("sLSTM", "Mamba [-1, 1]", "DeltaNet [-1, 1]"), chomsky.ARITHMETIC: chomsky.MODELS}
PANELS = tuple(panel for panel in chomsky.PANELS if panel.label in MODELS)
RATES = {(chomsky.PARITY, "DeltaNet [-1, 1]"): 1e-2}  # by the pilot of Table 3
OTHER_RATE = 1e-3

PAPER = replace(chomsky.PAPER, rates=(1e-2, 1e-3))
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, batch=128, precision="tfloat32"),
    validate_every=5000,
    checkpoint_every=5000,
)
SMOKE = replace(chomsky.SMOKE, rates=PAPER.rates, pilot=False, seeds=(0,))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return [
        cell
        for cell in grid("longer", PANELS, chomsky.table_series(settings), settings, seeds)
        if cell.series in MODELS[cell.panel] and cell.rate == RATES.get((cell.panel, cell.series), OTHER_RATE)
    ]


PAPER_VALUES = {
    column: {(panel, model): value for (panel, model), value in values.items() if model in MODELS.get(panel, ())}
    for column, values in chomsky.PAPER_VALUES.items()
}


def findings(results: Sequence[CellResult]) -> list[str]:
    """Column by column beside the paper's last version; then how far each model is right on parity."""
    lines = number_lines_by_panel(results, PAPER_VALUES["paper, ICLR: best [median]"])
    if parity := [run for run in results if run.panel == chomsky.PARITY]:
        lines.append(f"Parity. {horizon_line(parity)}")
    return lines + budget_lines(results, PAPER.training.steps)


EXPERIMENT = Experiment(
    name="longer",
    title="Parity and modular arithmetic without brackets for 100,000 steps",
    source="Table 3, columns 1 and 2, ICLR and workshop version; short: the paper's number of steps, an eighth of its batch",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    paper=PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    findings=findings,
    differences=(
        *chomsky.DIFFERENCES[:3],
        "Each model has the rate that the pilot of `table3` chose, after 10,000 steps: 1e-2 for DeltaNet [-1, 1] on parity, "
        "1e-3 for all others.",
    ),
)
