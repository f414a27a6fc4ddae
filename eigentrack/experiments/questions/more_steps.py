"""Was it the budget? What was missed at `short`, with ten times the steps.

LONGER: Table 3's columns 1 and 2 for as many steps as the paper's. Where Table 3 at `short` has 10,000 steps of 128, this has
100,000 steps of 128: an eighth of the paper's sequences. On arithmetic all models are trained; on parity those that the paper
finds right to the end, as the others cannot learn it, says theory. Each model has the rate that the pilot of Table 3 chose.

PATIENCE: the fields of `ladder` and of `hybrids` of which theory says can and no seed fits the training lengths, each at the
rate that the pilot there chose for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eigentrack.experiments.design.experiment import HORIZON_SCORE, Experiment, trained_for
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.paper import parity_and_arithmetic as table3
from eigentrack.experiments.paper.parity_and_arithmetic import ARITHMETIC, PARITY
from eigentrack.experiments.questions import hybrids, ladder, regular_languages
from eigentrack.experiments.reporting.answers import BesideThePaper
from eigentrack.experiments.reporting.comparisons import WithMoreSteps
from eigentrack.experiments.reporting.findings import FewerSteps, Horizons, PaperNumbersByPanel
from eigentrack.experiments.reporting.horizon_map import CAPTION, plot_horizons

TABLE_3_RATES = {  # the rates that the pilot of Table 3 chose
    (PARITY, "sLSTM"): 1e-3,
    (PARITY, "Mamba [-1, 1]"): 1e-3,
    (PARITY, "DeltaNet [-1, 1]"): 1e-2,
    **{(ARITHMETIC, model): 1e-3 for model in table3.SERIES},
}
TABLE_3_VALUES = {
    column: {key: value for key, value in values.items() if key in TABLE_3_RATES}
    for column, values in table3.PAPER_VALUES.items()
}
PAPER = replace(table3.PAPER, rates=(1e-2, 1e-3))
LONGER = replace(
    table3.TABLE_3,
    name="longer",
    title="Parity and modular arithmetic without brackets for 100,000 steps",
    question="Do the models reach the paper's scores when they are trained for as many steps as the paper's?",
    answer=BesideThePaper(TABLE_3_VALUES["paper, ICLR: best [median]"]),
    source="Table 3, columns 1 and 2, ICLR and workshop version; short: the paper's number of steps, an eighth of its batch",
    settings={
        "smoke": replace(table3.SMOKE, rates=PAPER.rates, pilot=False, seeds=(0,)),
        "short": replace(
            PAPER,
            training=replace(PAPER.training, batch=128, precision="tfloat32"),
            validate_every=5000,
            checkpoint_every=5000,
        ),
        "paper": PAPER,
    },
    family="longer",
    panels=table3.PANELS[:2],
    chosen_rates=TABLE_3_RATES,
    paper=TABLE_3_VALUES,
    findings=(
        PaperNumbersByPanel(TABLE_3_VALUES["paper, ICLR: best [median]"]),
        Horizons(PARITY),
        FewerSteps(PAPER.training.steps),
    ),
    differences=(
        *table3.DIFFERENCES[:3],
        "Each model has the rate that the pilot of `table3` chose, after 10,000 steps: 1e-2 for DeltaNet [-1, 1] on parity, "
        "1e-3 for all others.",
    ),
)

TIMES = 10
PRODUCT = "DeltaProduct, n = 2, [-1, 1]"
MISSED_RATES = {  # the rates that the pilots chose, by language and layer
    ("Z4", "sLSTM"): 1e-3,
    ("binary, mod 5", "GLA, disk"): 1e-3,
    ("binary, mod 5", "sLSTM"): 3e-3,
    ("S3", "GLA, disk"): 3e-3,
    ("S3", "DeltaNet [-1, 1]"): 3e-3,
    ("A4", "GLA, disk"): 1e-3,
    ("A4", PRODUCT): 3e-3,
    ("A4", "sLSTM"): 3e-3,
    ("Z60", "GLA, disk"): 1e-3,
    ("Z60", "DeltaNet [-1, 1]"): 1e-3,
    ("Z60", PRODUCT): 1e-3,
    ("Z60", "sLSTM"): 3e-3,
    ("A5", PRODUCT): 1e-3,
    ("A5", "sLSTM"): 1e-3,
    ("S5, swaps", "sLSTM"): 3e-3,
    ("mod 3, with resets", "gated GH, n = 2, one layer"): 3e-3,
    ("mod 3, with resets", "KDA, n = 2, one layer"): 3e-3,
}
# at every budget ten times the ladder's steps; twice that for languages with more answers, as there, and for one layer
MISSED_PANELS = (*ladder.EASY, *(replace(panel, training=trained_for(TIMES * ladder.MORE)) for panel in ladder.HARD))
MISSED_SERIES = (
    *(replace(series, training=trained_for(TIMES)) for series in ladder.SERIES),
    *(
        replace(series, label=f"{series.label}, one layer", training=trained_for(TIMES * ladder.MORE))
        for series in hybrids.SERIES
    ),
)
THEORY = Theory(MISSED_PANELS, MISSED_SERIES, regular_languages.PAPER)
PATIENCE = Experiment(
    name="patience",
    title="What can be recognised and was not learned, with ten times the steps or more",
    question="Are languages that theory allows and training missed learned with ten times the steps or more?",
    answer=WithMoreSteps().answer,
    source="none: the fields of `ladder` and `hybrids` that disagree with theory because training did not find the network",
    settings={
        "smoke": replace(regular_languages.SMOKE, rates=regular_languages.PAPER.rates),
        "short": replace(ladder.SHORT, pilot=False, checkpoint_every=2000),
        "paper": replace(regular_languages.PAPER, pilot=False),
    },
    family="patience",
    panels=MISSED_PANELS,
    series=MISSED_SERIES,
    chosen_rates=MISSED_RATES,
    setup="two layers or one, no convolution; each field at the rate that the pilot of `ladder` or `hybrids` chose",
    score=HORIZON_SCORE,
    plot=partial(plot_horizons, answer=THEORY.answer),
    caption=CAPTION,
    findings=(WithMoreSteps(),),
    columns=(THEORY.column,),
)
