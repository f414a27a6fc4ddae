"""Divergence of training by model size, learning rate and range, for DeltaNet and Mamba on modular arithmetic, unclipped."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Experiment, OfBudget, Panel, Series
from eigentrack.experiments.design.models import NARROW, WIDE
from eigentrack.experiments.paper import parity_and_arithmetic
from eigentrack.experiments.paper.parity_and_arithmetic import ARITHMETIC
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.studies.stability import UnstableRuns, table
from eigentrack.experiments.studies.stability_plot import CAPTION, plot

PAPER = replace(
    parity_and_arithmetic.PAPER,
    d_model=64,
    training=replace(parity_and_arithmetic.PAPER.training, steps=20_000, warmup=2000),
    rates=(1e-4, 1e-3, 1e-2, 1e-1),
    test=LengthTest((40, 256), 2048),
    telemetry_every=1000,
)
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=2000, batch=128, warmup=200, precision="tfloat32"),
    telemetry_every=200,
)
SMOKE = replace(
    SHORT,
    d_model=8,
    heads=2,
    training=replace(PAPER.training, steps=10, batch=16, warmup=2),
    rates=(1e-3, 1e-1),
    seeds=(0,),
    test=LengthTest((40, 64), 32),
    validate_every=10,
    checkpoint_every=5,
    telemetry_every=5,
)
LAYERS: dict[str, dict[str, Any]] = {
    "DeltaNet": {"mixer": "deltanet", "mixer_options": {"heads": HEADS}},
    "Mamba": {"mixer": "mamba"},
}


def _width(factor: int) -> OfBudget:
    return OfBudget(lambda settings: factor * settings.d_model)


UNSTABLE = UnstableRuns(guess=math.log(5))  # among five answers


EXPERIMENT = Experiment(
    name="stability",
    title="Where runs diverge, by model size, learning rate and range",
    question="Is training less stable with eigenvalues in [-1, 1] than in [0, 1]?",
    answer=UNSTABLE.answer,
    source="none; the paper says that both models trained stably in the wide range, without a change of the learning rate",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="stability",
    panels=tuple(
        Panel(f"{name} [{low:g}, {high:g}]", "modular-arithmetic", model={**model, "layers": 3, "eigenvalues": [low, high]})
        for name, model in LAYERS.items()
        for low, high in (NARROW, WIDE)
    ),
    series=tuple(Series("d = {d_model}", {"d_model": _width(factor)}) for factor in (1, 2, 4)),
    score=SCALED_ACCURACY,
    setup=f"{ARITHMETIC}, three layers, no convolution; gradients are not clipped",
    plot=partial(plot, task=ARITHMETIC),
    caption=CAPTION,
    findings=(UNSTABLE,),
    every_rate=True,
    table=table,
)
