"""DeltaProduct (Siems et al. 2025, the authors' sequel): one layer with n Householder factors per token, on S3, S4, A5 and S5.

S_m acts on m - 1 dimensions, where m - 1 reflections make any element: 4 for S5, 2 for S3. A5 and S4 are also the rotations of
a solid, and a rotation in three dimensions is a product of 2.

Settings of the sequel: trained at length 128, tested to 512, batch 2048, rate 1e-3 with a cosine, 8 heads, no convolution, no
gate, 100 passes. Taken from Figure 3: width 128, weight decay 0.01, passes of 1.6 million sequences (78,125 steps).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eigentrack.experiments.design.experiment import HEADS, Experiment, Panel, Series
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.paper import word_problems
from eigentrack.experiments.reporting.columns import DEAD_BY, HORIZON
from eigentrack.experiments.reporting.comparisons import FewestFactors
from eigentrack.experiments.reporting.curve_plot import SEQUENCE_CAPTION, plot_sequence_accuracy
from eigentrack.experiments.reporting.findings import FewerSteps, PaperCurves, Reach
from eigentrack.experiments.running.length_test import LengthTest

PAPER = replace(
    word_problems.PAPER,
    heads=8,
    training=replace(word_problems.PAPER.training, steps=78_125, batch=2048, lengths=(128, 128)),
    rates=(1e-3,),
    floor=1e-6,
    test=LengthTest((129, 512), 8192),
)
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=3000, batch=128, warmup=150, precision="bfloat16"),
    rates=(3e-3, 1e-3),
    pilot=True,
    test=replace(PAPER.test, sequences=2048),
    validate_every=2500,
    checkpoint_every=2500,
)
SMOKE = replace(
    SHORT,
    d_model=16,
    heads=2,
    training=replace(PAPER.training, steps=8, batch=8),
    rates=(1e-3,),
    seeds=(0,),
    test=LengthTest((129, 200), 16),
    validate_every=8,
    checkpoint_every=4,
)

PANELS = tuple(Panel(name, "group", {"name": name, "begin_token": True}) for name in ("S3", "S4", "A5", "S5"))
LABELS = {n: f"n = {n}" for n in (1, 2, 3, 4)}  # factors per token
SERIES = tuple(
    Series(label, {"mixer": "deltanet", "layers": 1, "mixer_options": {"heads": HEADS, "conv": 0, "householders": n}})
    for n, label in LABELS.items()
)
THEORY = Theory(PANELS, SERIES, PAPER)

PAPER_VALUES = {
    ("S3", LABELS[1]): "fails: S3 needs n = 2",
    ("S3", LABELS[2]): "generalises",
    ("S4", LABELS[2]): "generalises",
    ("A5", LABELS[2]): "generalises",
    ("S5", LABELS[1]): "dead by about 10",
    ("S5", LABELS[2]): "dead by about 10",
    ("S5", LABELS[3]): "dead by about 50",
    ("S5", LABELS[4]): "right to about 200, dead by 500",
}


PAPER_REACH = {  # the same as bounds on lengths
    ("S3", LABELS[1]): Reach(wrong_at=256),
    **{(name, LABELS[2]): Reach(right_at=256) for name in ("S3", "S4", "A5")},
    ("S5", LABELS[1]): Reach(dead_at=10),
    ("S5", LABELS[2]): Reach(dead_at=10),
    ("S5", LABELS[3]): Reach(dead_at=50),
    ("S5", LABELS[4]): Reach(right_at=200),
}

EXPERIMENT = Experiment(
    name="deltaproduct",
    title="How many Householder factors a group needs, in one layer",
    question="How many Householder factors per token does one layer need to learn a group, and how many are enough in theory?",
    answer=FewestFactors(LABELS, THEORY).answer,
    source="the word problems of Siems et al. 2025; its curves are described here in words",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="deltaproduct",
    panels=PANELS,
    series=SERIES,
    score=word_problems.RIGHT_TO,
    plot=partial(plot_sequence_accuracy, models="DeltaNet [-1, 1], one layer, n factors a token"),
    caption=SEQUENCE_CAPTION,
    columns=(DEAD_BY, HORIZON, THEORY.column),
    paper={"DeltaProduct paper": PAPER_VALUES},
    paper_budget=PAPER,
    findings=(FewestFactors(LABELS, THEORY), PaperCurves(PAPER_REACH, PAPER_VALUES), FewerSteps(PAPER.training.steps)),
    differences=("Every training sequence is new.", "Width 128 and weight decay 0.01: the sequel's are not known here."),
)
