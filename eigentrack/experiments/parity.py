"""Parity with the budget of the paper's released code, with eigenvalues that are cut at -1 and 1, and with other losses.

The short budget of Figure 1 leaves Mamba and DeltaNet in [-1, 1] below the paper's 1.000: eigenvalues are near -1 and 1, and
what is missing shows at length. At the budget `short` they train here as the released code does (20,000 steps of 256, rate
1e-3). DeltaNet with an overshoot has eigenvalues of -1 and 1, to the rounding of its keys, where the others come near: does it
hold a bit for longer?

Once all answers at the training lengths are right the loss of hard labels vanishes, and with it the gradient, while weight
decay goes on pulling. Labels that are smoothed by 0.1 have a loss that is least where logits are exact, and keep a gradient.
Which of the two, decay or hard labels, keeps Mamba from -1?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Series, Settings, grid
from eigentrack.experiments.paper_agreement import budget_lines, horizon_line, number_lines
from eigentrack.experiments.series_grid_plot import plot_each_series

PANELS = tuple(panel for panel in chomsky.PANELS if panel.label == chomsky.PARITY)
OVERSHOOT = 0.05
DELTA_NET, MAMBA = "DeltaNet [-1, 1]", "Mamba [-1, 1]"
CUT = f"{DELTA_NET}, overshoot {OVERSHOOT:g}"
BOTH = "no decay, smoothed 0.1"
LOSSES = {"no decay": chomsky.NO_DECAY, "smoothed 0.1": chomsky.SMOOTHED, BOTH: {**chomsky.NO_DECAY, **chomsky.SMOOTHED}}

PAPER = replace(chomsky.PAPER, rates=(1e-3,))
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=20_000, batch=256, warmup=2000),
    validate_every=2500,
    checkpoint_every=2500,
)
SMOKE = replace(chomsky.SMOKE, rates=(1e-3,), pilot=False, seeds=(0,))

PAPER_VALUES = {
    column: {(chomsky.PARITY, model): values[chomsky.PARITY, model] for model in (DELTA_NET, MAMBA)}
    for column, values in chomsky.PAPER_VALUES.items()
}


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    models = {series.label: series.model for series in chomsky.table_series(settings)}
    delta_net, mamba = models[DELTA_NET], models[MAMBA]
    series = [
        Series(DELTA_NET, delta_net),
        Series(CUT, {**delta_net, "mixer_options": {**delta_net["mixer_options"], "overshoot": OVERSHOOT}}),
        *(Series(f"{DELTA_NET}, {name}", delta_net, LOSSES[name]) for name in ("no decay", BOTH)),
        Series(MAMBA, mamba),
        *(Series(f"{MAMBA}, {name}", mamba, changes) for name, changes in LOSSES.items()),
    ]
    return grid("parity", PANELS, series, settings, seeds)


def findings(results: Sequence[CellResult]) -> list[str]:
    """Beside the paper; then how far each goes, and how many never fail."""
    lines = number_lines(results, PAPER_VALUES["paper, ICLR: best [median]"], "the paper")
    lines.append(horizon_line(results))
    return lines + budget_lines(results, PAPER.training.steps)


EXPERIMENT = Experiment(
    name="parity",
    title="Parity: eigenvalues near -1 and 1, eigenvalues that are cut there, and what else keeps them there",
    source="Figure 1 and the first column of Table 3; short: the released code's number of steps, batch and rate",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=chomsky.SCORE,
    plot=partial(plot_each_series, models="two blocks"),
    paper=PAPER_VALUES,
    paper_budget=chomsky.PAPER,
    findings=findings,
    differences=(*chomsky.DIFFERENCES[:2], "One rate, 1e-3, that of the released code; no pilot."),
)
