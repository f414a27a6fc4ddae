"""Theory against practice: languages of growing complexity × seven architectures, verdict and trained horizon side by side.

The ladder goes up in states, then in groups: star-free languages (flip-flops, brackets that nest), counters, groups that are
solvable, and groups that are not. Two layers without a convolution throughout.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eigentrack.experiments.design.experiment import HEADS, HORIZON_SCORE, Experiment, Series, trained_for
from eigentrack.experiments.design.models import DISK, NARROW, WIDE, layer
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions import regular_languages
from eigentrack.experiments.questions.regular_languages import (
    PAPER,
    SMOKE,
    flip_flop_panel,
    group_panel,
    language_panel,
    rarely_reset,
    with_steps,
)
from eigentrack.experiments.reporting.horizon_map import CAPTION, plot_horizons
from eigentrack.experiments.studies.ladder import StudiedResult, TheoryAgainstPractice, study

EASY = (
    language_panel("1*", "tomita1"),
    language_panel("ends with ab", "ends-ab"),
    flip_flop_panel("flip-flop"),
    language_panel("(10)*", "tomita2"),
    language_panel("no 000", "tomita4"),
    language_panel("brackets, 2 deep", "d2"),
    language_panel("brackets, 4 deep", "d4"),
    language_panel("2 kinds of brackets, 2 deep", "dyck2-2"),
    language_panel("parity", "parity"),
    language_panel("even pairs", "even-pairs"),
    language_panel("(abab)*", "abab"),
    language_panel("odd runs (Tomita 3)", "tomita3"),
    group_panel("Z3", "Z3"),
    rarely_reset("mod 3, with resets", 3, lambda x: x + 1),
    group_panel("Z4", "Z4"),
    language_panel("binary, mod 5", "binary-mod5"),
    group_panel("S3", "S3"),
)
MORE = 2  # times the steps, for languages with more answers than a short training tells apart
HARD = (
    group_panel("A4", "A4"),
    group_panel("S4, swaps", "S4", "swaps"),
    group_panel("Z60", "Z60"),
    group_panel("A5", "A5"),
    group_panel("S5, swaps", "S5", "swaps"),
)
SERIES = (
    Series("Mamba [0, 1]", layer("mamba", NARROW, layers=2)),
    Series("Mamba [-1, 1]", layer("mamba", WIDE, layers=2)),
    Series("GLA, disk", layer("gla", DISK, layers=2, heads=HEADS)),
    Series("DeltaNet [0, 1]", layer("deltanet", NARROW, layers=2, heads=HEADS)),
    Series("DeltaNet [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS)),
    Series("DeltaProduct, n = 2, [-1, 1]", layer("deltanet", WIDE, layers=2, heads=HEADS, householders=2)),
    Series("sLSTM", layer("slstm", layers=2, heads=HEADS)),
)
SHORT = with_steps(regular_languages.SHORT, 1200, warmup=60)
THEORY = Theory((*EASY, *HARD), SERIES, PAPER)
COMPARISON = TheoryAgainstPractice(THEORY, [panel.label for panel in HARD], MORE)

EXPERIMENT = Experiment(
    name="ladder",
    title="Theory against practice: what can be recognised, and what is learned",
    question="Where do theory and training disagree?",
    answer=COMPARISON.answer,
    source="none: the paper proves what each layer can and cannot do, and trains on a few of these languages",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="ladder",
    panels=(*EASY, *(replace(panel, training=trained_for(MORE)) for panel in HARD)),
    series=SERIES,
    setup="two layers, no convolution",
    score=HORIZON_SCORE,
    plot=partial(plot_horizons, answer=THEORY.answer),
    caption=CAPTION,
    findings=(COMPARISON.findings,),
    table=COMPARISON.table,
    study=study,
    read_result=StudiedResult.from_json,
)
