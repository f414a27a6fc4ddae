"""Metric automata theory, measured: which networks track state robustly, and which work until they do not?

Flip-flop, four star-free languages, parity and counting modulo 3, each learned by one layer of each kind, and compiled. For
every network: up to which length it answers rightly, how large an error in every step it bears, and what theory says of both.
"""

from __future__ import annotations

from dataclasses import replace

from eigentrack.experiments.design.experiment import HEADS, Experiment, Panel, Score, Series, Settings
from eigentrack.experiments.design.models import DISK, NARROW, WIDE, in_both_ranges, layer
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.studies.robustness import NetworkFacts, study
from eigentrack.experiments.studies.robustness_table import CAPTION, answer, findings, plot, table
from eigentrack.training import TrainingConfig

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

EXPERIMENT = Experiment(
    name="mat",
    title="Robust state tracking: horizon, noise that is borne, and what theory says",
    question="Which networks track state robustly, on the worst words and with an error in every step?",
    answer=answer,
    source="Metric Automata Theory (Dankowiakowski and Ronca, 2025), which shows a trained Mamba that collapses on flip-flop, "
    "after about 1000 letters that are ignored",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="mat",
    panels=(
        Panel("flip-flop", "language-state", {"name": "flip-flop"}),
        *(Panel(f"Tomita {number}", "language", {"name": f"tomita{number}"}) for number in (1, 2, 4, 7)),
        Panel("parity", "language", {"name": "parity"}),
        Panel("modulo 3", "group", {"name": "Z3"}),
    ),
    series=(  # one layer without a convolution, so that a linear one can be snapped to an exact network
        Series("sLSTM", layer("slstm", NARROW, layers=1, heads=HEADS)),
        Series("LSTM", layer("lstm", NARROW, layers=1, heads=1)),
        *in_both_ranges("Mamba", layer("mamba", layers=1, state_size=4)),
        Series("GLA, disk", layer("gla", DISK, layers=1, heads=HEADS)),
        Series("DeltaNet [-1, 1]", layer("deltanet", WIDE, layers=1, heads=HEADS)),
        Series("DeltaProduct [-1, 1]", layer("deltanet", WIDE, layers=1, heads=HEADS, householders=2)),
    ),
    score=Score("largest error that was borne in every step", lambda result: result.noise),
    plot=plot,
    caption=CAPTION,
    findings=(findings,),
    every_rate=True,
    table=table,
    study=study,
    read_result=NetworkFacts.from_json,
)
