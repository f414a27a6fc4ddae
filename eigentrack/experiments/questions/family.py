"""Every linear layer on six tasks, two layers of each, beside what theory says. A new layer is one line in `SERIES`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Experiment, OfBudget, Panel, Series, trained_for
from eigentrack.experiments.design.models import DISK, NARROW, WIDE, layer
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions.regular_languages import (
    PAPER,
    SHORT,
    SMOKE,
    flip_flop_panel,
    group_panel,
    with_steps,
)
from eigentrack.experiments.reporting.answers import AgreementWithTheory
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.reporting.comparisons import LearnedBy
from eigentrack.experiments.reporting.horizon_map import CAPTION, plot_horizons

MORE = 3  # times the steps, for the hard tasks
PANELS = (
    Panel("parity", "parity", {"last_weight": 0.0}),
    group_panel("Z3", "Z3"),
    group_panel("S3", "S3"),
    flip_flop_panel("flip-flop"),
    replace(group_panel("Z60", "Z60"), training=trained_for(MORE)),
    replace(group_panel("S5, swaps", "S5", "swaps"), training=trained_for(MORE)),
)
_STATE_SIZE = OfBudget(lambda settings: 4 * settings.heads)
SERIES = (
    Series("Mamba [-1, 1]", layer("mamba", WIDE, layers=2)),
    Series("Mamba-2 [-1, 1]", layer("mamba2", WIDE, layers=2, heads=HEADS)),
    Series("GLA [-1, 1]", layer("gla", WIDE, layers=2, heads=HEADS)),
    Series("mLSTM [-1, 1]", layer("mlstm", WIDE, layers=2, heads=HEADS)),
    Series("DeltaNet [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS)),
    Series("DeltaProduct, n = 2, [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS, householders=2)),
    Series("gated DeltaNet [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS, gate=NARROW)),
    Series("KDA [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS, gate=WIDE, gate_per_channel=True)),
    Series("RWKV-7 [-1, 1]", layer("rwkv7", WIDE, layers=2, heads=HEADS)),
    Series("GLA, disk", layer("gla", DISK, layers=2, heads=HEADS)),
    Series("Mamba, disk", layer("mamba", DISK, layers=2)),
    Series("S4D, disk", layer("s4d", DISK, layers=2)),
    Series("TTT-Linear", layer("ttt", layers=2, heads=HEADS)),
    Series("full matrix", {"mixer": "dense", "mixer_options": {"state_size": _STATE_SIZE, "eigenvalues": None}, "layers": 2}),
)
THEORY = Theory(PANELS, SERIES, PAPER)

EXPERIMENT = Experiment(
    name="family",
    title=f"All linear layers on six tasks, two layers each; Z60 and S5 are trained {MORE} times as long",
    question="Which linear layers learn which of six tasks, and does that agree with theory?",
    answer=AgreementWithTheory(THEORY),
    source="none: the paper trains Mamba, DeltaNet and mLSTM",
    settings={
        "smoke": SMOKE,
        "short": replace(with_steps(SHORT, 1300, warmup=65), rates=(3e-3,), pilot=False, seeds=(0,)),
        "paper": PAPER,
    },
    family="family",
    panels=PANELS,
    series=SERIES,
    setup="two layers, no convolution",
    score=SCALED_ACCURACY,
    plot=partial(plot_horizons, answer=THEORY.answer),
    caption=CAPTION,
    findings=(LearnedBy(THEORY),),
    columns=(HORIZON, THEORY.column),
)
