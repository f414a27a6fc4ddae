"""Gates below zero in layers whose kernels knew only their logarithms: GLA, Mamba-2 and mLSTM in both ranges.

The rival turns instead of flipping: GLA with gates in the unit disk.

Parity takes one flip; a walk on a cycle of four, and Z4 with all its elements as letters, take two layers of flips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.open_questions import DISK, NARROW, PAPER, SHORT, SMOKE, WIDE, group_panel, layer
from eigentrack.experiments.theory import Theory

PANELS = (
    Panel("parity", "parity", {"last_weight": 0.0}),
    Panel("cycle of 4", "cycle-navigation", {"places": 4}),
    group_panel("Z4", "Z4"),
)
LAYERS = {"GLA": "gla", "Mamba-2": "mamba2", "mLSTM": "mlstm"}


def _series(heads: int) -> tuple[Series, ...]:
    rival = Series("GLA, disk", {**layer("gla", DISK, heads=heads), "layers": 2})
    signed = (
        Series(f"{label} [{low:g}, {high:g}]", {**layer(mixer, [low, high], heads=heads), "layers": 2})
        for label, mixer in LAYERS.items()
        for low, high in (NARROW, WIDE)
    )
    return (*signed, rival)


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("signed_gates", PANELS, _series(settings.heads), settings, seeds)


EXPERIMENT = Experiment(
    name="signed_gates",
    title="Signed gates in GLA, Mamba-2 and mLSTM, two layers, beside gates that turn",
    source="none: the paper widens Mamba and DeltaNet alone, for the kernels of the others compute gates as logarithms",
    settings={
        "smoke": SMOKE,
        "short": replace(
            SHORT,
            d_model=32,
            training=replace(SHORT.training, steps=1000, batch=32, warmup=50),
            rates=(1e-2, 3e-3),
            pilot=True,
        ),
        "paper": PAPER,
    },
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    columns=(HORIZON, Theory(PANELS, _series(4)).column),
)
