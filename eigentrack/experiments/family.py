"""Every linear layer on six tasks, two layers of each, beside what theory says. A new layer is one line in `_layers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.horizon_map import plot_horizons
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    SHORT,
    SMOKE,
    WIDE,
    flip_flop_panel,
    group_panel,
    layer,
    longer,
)
from eigentrack.experiments.theory import Theory

EASY = (
    Panel("parity", "parity", {"last_weight": 0.0}),
    group_panel("Z3", "Z3"),
    group_panel("S3", "S3"),
    flip_flop_panel("flip-flop"),
)
HARD = (group_panel("Z60", "Z60"), group_panel("S5, swaps", "S5", "swaps"))
MORE = 3  # times the steps, for these


def _layers(heads: int) -> dict[str, dict[str, Any]]:
    return {
        "Mamba [-1, 1]": layer("mamba", WIDE),
        "Mamba-2 [-1, 1]": layer("mamba2", WIDE, heads=heads),
        "GLA [-1, 1]": layer("gla", WIDE, heads=heads),
        "mLSTM [-1, 1]": layer("mlstm", WIDE, heads=heads),
        "DeltaNet [-1, 1]": layer("deltanet", WIDE, heads=heads),
        "DeltaProduct, n = 2, [-1, 1]": layer("deltanet", WIDE, heads=heads, householders=2),
        "gated DeltaNet [-1, 1]": layer("deltanet", WIDE, heads=heads, gate=NARROW),
        "KDA [-1, 1]": layer("deltanet", WIDE, heads=heads, gate=WIDE, gate_per_channel=True),
        "RWKV-7 [-1, 1]": layer("rwkv7", WIDE, heads=heads),
        "GLA, disk": layer("gla", DISK, heads=heads),
        "Mamba, disk": layer("mamba", DISK),
        "S4D, disk": layer("s4d", DISK),
        "TTT-Linear": layer("ttt", heads=heads),
        "full matrix": {"mixer": "dense", "mixer_options": {"state_size": 4 * heads, "eigenvalues": None}},
    }


def _series(heads: int) -> tuple[Series, ...]:
    return tuple(Series(label, {**model, "layers": 2}) for label, model in _layers(heads).items())


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    panels = [*EASY, *(longer(panel, MORE, settings) for panel in HARD)]
    return grid("family", panels, _series(settings.heads), settings, seeds)


THEORY = Theory((*EASY, *HARD), _series(4))

EXPERIMENT = Experiment(
    name="family",
    title=f"All linear layers on six tasks, two layers each; Z60 and S5 are trained {MORE} times as long",
    source="none: the paper trains Mamba, DeltaNet and mLSTM",
    settings={
        "smoke": SMOKE,
        "short": replace(
            SHORT, training=replace(SHORT.training, steps=1300, warmup=65), rates=(3e-3,), pilot=False, seeds=(0,)
        ),
        "paper": PAPER,
    },
    cells=_cells,
    setup="two layers, no convolution",
    score=chomsky.SCORE,
    plot=partial(plot_horizons, answer=THEORY.answer),
    columns=(HORIZON, THEORY.column),
)
