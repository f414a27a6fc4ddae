"""Metric automata theory, measured: which networks track state robustly, and which work until they do not?

Flip-flop, four star-free languages, parity and counting modulo 3, each learned by one layer of each kind, and compiled. For
every network: up to which length it answers rightly, how large an error in every step it bears, and what theory says of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import Experiment, Panel, Score, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.robustness_study import study
from eigentrack.experiments.robustness_table import plot, table
from eigentrack.training import TrainingConfig

NARROW, WIDE, DISK = [0.0, 1.0], [-1.0, 1.0], {"disk": [0.0, 1.0]}
PANELS = (
    Panel("flip-flop", "language-state", {"name": "flip-flop"}),
    *(Panel(f"Tomita {number}", "language", {"name": f"tomita{number}"}) for number in (1, 2, 4, 7)),
    Panel("parity", "language", {"name": "parity"}),
    Panel("modulo 3", "group", {"name": "Z3"}),
)

PAPER = Settings(
    d_model=32,
    training=TrainingConfig(steps=10_000, batch=256, lengths=(3, 40), warmup=500),
    rates=(5e-3,),
    floor=1e-5,
    seeds=(0, 1, 2),
    test=LengthTest((40, 256), 1024, far=100_000),
)
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=1000, batch=128, warmup=50),
    seeds=(0,),
    test=LengthTest((40, 256), 512, far=4096),
    validate_every=250,
    checkpoint_every=500,
)
SMOKE = replace(
    SHORT,
    d_model=8,
    heads=2,
    training=replace(PAPER.training, steps=4, batch=8, lengths=(3, 8), warmup=2),
    test=LengthTest((8, 16), 8, far=32),
    validate_every=4,
    checkpoint_every=4,
)


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("mat", PANELS, _series(settings.heads), settings, seeds)


def _series(heads: int) -> list[Series]:
    """One layer without a convolution, so that a linear one can be snapped to an exact network."""

    def layer(mixer: str, eigenvalues: Any, **options: Any) -> dict[str, Any]:
        return {"mixer": mixer, "mixer_options": options, "eigenvalues": eigenvalues, "layers": 1}

    return [
        Series("sLSTM", layer("slstm", NARROW, heads=heads)),
        Series("LSTM", layer("lstm", NARROW, heads=1)),
        *(
            Series(f"Mamba [{low:g}, {high:g}]", layer("mamba", [low, high], state_size=4, conv=0))
            for low, high in (NARROW, WIDE)
        ),
        Series("GLA, disk", layer("gla", DISK, heads=heads, conv=0)),
        Series("DeltaNet [-1, 1]", layer("deltanet", WIDE, heads=heads, conv=0)),
        Series("DeltaProduct [-1, 1]", layer("deltanet", WIDE, heads=heads, conv=0, householders=2)),
    ]


EXPERIMENT = Experiment(
    name="mat",
    title="Robust state tracking: horizon, noise that is borne, and what theory says",
    source="Metric Automata Theory (Dankowiakowski and Ronca, 2025), which shows a trained Mamba that collapses on flip-flop, "
    "after about 1000 letters that are ignored",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=Score("largest error that was borne in every step", lambda result: result.noise),
    plot=plot,
    every_rate=True,
    table=table,
    study=study,
)
