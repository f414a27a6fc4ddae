"""Does tracking state cost recall? Layers in both ranges, each on associative recall and on the word problem of S5.

Recall has 24 pairs of a key and a value, more than a head has dimensions at the short budget, then 16 questions. The word
problem has swaps of five points; networks are trained at length 32 and scored at twice that. All layers have a short
convolution, which joins a key to its value.

The question is asked of each layer in its two ranges, which differ in nothing else. Layers differ in the size of their state,
and with it in what they can recall; the legend names the size.

GLA's gates start at 0.958 in both ranges. In [-1, 1] they change faster with their logits, as the temperature is 1 and not 16.
Two further series separate the two changes: one changes the range alone, with a temperature of 16, where gates of [-1, 1]
start at 0.915; the other has a temperature of 1 and gates that start nearer to 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Column, Experiment, Panel, Series
from eigentrack.experiments.design.models import NARROW, WIDE, in_both_ranges
from eigentrack.experiments.questions.regular_languages import PAPER, SHORT, SMOKE, with_steps
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.studies.tradeoff import CAPTION, RecallAndTracking
from eigentrack.layers.gla import SIGNED_TEMPERATURE, TEMPERATURE

RECALL, TRACKING = "recall", "S5, swaps"
PAIRS, QUESTIONS, TRAINED = 24, 16, 32
NAMES, CONVOLUTION = 64, 4  # keys, and as many values
FLAT, NEARER = f"GLA, temperature {TEMPERATURE:g} [-1, 1]", f"GLA, temperature {SIGNED_TEMPERATURE:g}, from 0.99"
LENGTH = 2 * PAIRS + QUESTIONS  # the length of recall, and twice the training length of S5
PANELS = (
    Panel(
        RECALL,
        "recall",
        {"keys": NAMES, "values": NAMES, "pairs": PAIRS, "queries": QUESTIONS},
        training={"lengths": (LENGTH, LENGTH)},
    ),
    Panel(TRACKING, "group", {"name": "S5", "inputs": "swaps"}, training={"lengths": (TRAINED, TRAINED)}),
)
TEST = LengthTest((LENGTH, LENGTH), 2048, far=512)


def _model(mixer: str, **options: Any) -> dict[str, Any]:
    return {"mixer": mixer, "mixer_options": {**options, "conv": CONVOLUTION}, "layers": 2, "eigenvalues": WIDE}


STEEP = {**_model("gla", heads=HEADS, gate_temperature=SIGNED_TEMPERATURE), "initial": {"gates": [0.99, 0.99]}}
SERIES = (
    *in_both_ranges("DeltaNet", _model("deltanet", heads=HEADS)),
    *in_both_ranges("gated DeltaNet", _model("deltanet", heads=HEADS, gate=NARROW)),
    *in_both_ranges("Mamba", _model("mamba")),
    *in_both_ranges("GLA", _model("gla", heads=HEADS)),
    *in_both_ranges(NEARER, STEEP),
    Series(FLAT, _model("gla", heads=HEADS, gate_temperature=TEMPERATURE)),
)
COMPARISON = RecallAndTracking(RECALL, TRACKING, FLAT, PAIRS, LENGTH, TRAINED)

EXPERIMENT = Experiment(
    name="tradeoff",
    title="State tracking against recall, in both ranges",
    question="Does tracking state cost recall?",
    answer=COMPARISON.answer,
    source="none: the paper asks whether the wide range costs other abilities, and measures language models only",
    settings={
        "smoke": replace(SMOKE, test=replace(TEST, sequences=4, far=0)),
        "short": replace(with_steps(SHORT, 4000, warmup=200), test=TEST),
        "paper": replace(PAPER, test=replace(TEST, sequences=8192)),
    },
    family="tradeoff",
    panels=PANELS,
    series=SERIES,
    score=SCALED_ACCURACY,
    findings=(COMPARISON.findings,),
    setup=f"two layers with a convolution of width {CONVOLUTION}; recall: {PAIRS} pairs of {NAMES} keys and {NAMES} values, "
    f"then {QUESTIONS} questions, at one length, {LENGTH}; S5: swaps, trained at length {TRAINED}",
    columns=(
        Column(
            HORIZON.title,
            f"{HORIZON.meaning}; – for recall, which has one length",
            lambda runs: "–" if runs[0].panel == RECALL else HORIZON.show(runs),
        ),
    ),
    plot=COMPARISON.plot,
    caption=CAPTION,
)
