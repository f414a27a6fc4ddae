"""Can the length at which a trained network fails be told from its training lengths alone?

Small networks of one layer, trained to length 16 on seven languages, and tested on random words until they fail.
"""

from __future__ import annotations

from dataclasses import replace

from eigentrack.experiments.design.experiment import HEADS, HORIZON_SCORE, Experiment, Panel, Series, Settings
from eigentrack.experiments.design.models import DISK, WIDE, layer
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.studies.horizons import CAPTION, COLUMN, PredictedResult, answer, findings, plot, study
from eigentrack.training import TrainingConfig

PAPER = Settings(
    d_model=64,
    training=TrainingConfig(steps=5000, batch=256, lengths=(3, 40), warmup=250),
    rates=(3e-3,),
    floor=1e-5,
    seeds=tuple(range(5)),
    test=LengthTest((41, 512), 1024, far=16_384),
)
SHORT = replace(
    PAPER,
    d_model=16,
    heads=2,
    training=replace(PAPER.training, steps=400, batch=64, lengths=(3, 16), warmup=20),
    rates=(1e-2,),
    test=LengthTest((17, 256), 512, far=2048),
    validate_every=400,
    checkpoint_every=400,
)
SMOKE = replace(
    SHORT,
    d_model=8,
    training=replace(SHORT.training, steps=2, batch=4, lengths=(3, 8), warmup=1),
    seeds=(0,),
    test=LengthTest((9, 24), 16),
    validate_every=2,
    checkpoint_every=2,
)
PANELS = (
    Panel("parity", "parity"),
    Panel("flip-flop", "flip-flop"),
    Panel("Tomita 5", "language", {"name": "tomita5"}),
    Panel("(ab)*", "language", {"name": "abab"}),
    Panel("modulo 3", "group", {"name": "Z3", "inputs": "generators"}),
    Panel("cycle of 5", "cycle-navigation", {"places": 5}),
    Panel("S3, generators", "group", {"name": "S3", "inputs": "generators"}),
)
SERIES = (
    Series("GLA [-1, 1]", layer("gla", WIDE, layers=1, heads=HEADS)),
    Series("GLA, disk", layer("gla", DISK, layers=1, heads=HEADS)),
    Series("Mamba [-1, 1]", layer("mamba", WIDE, layers=1, state_size=4)),
    Series("DeltaNet [-1, 1]", layer("deltanet", WIDE, layers=1, heads=HEADS)),
    Series("DeltaProduct [-1, 1]", layer("deltanet", WIDE, layers=1, heads=HEADS, householders=2)),
)

EXPERIMENT = Experiment(
    name="horizons",
    title="The horizon of small trained networks, predicted from their training lengths",
    question="Can the length at which a trained network fails be told from its training lengths alone?",
    answer=answer,
    source="none: the spread of states within a class against the read-out's threshold is named as the cause of failure in "
    "arXiv 2605.07755",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="horizons",
    panels=PANELS,
    series=SERIES,
    setup="one layer without a convolution",
    score=HORIZON_SCORE,
    findings=(findings,),
    plot=plot,
    caption=CAPTION,
    columns=(COLUMN,),
    study=study,
    read_result=PredictedResult.from_json,
)
