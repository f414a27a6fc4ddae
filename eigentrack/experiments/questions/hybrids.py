"""Does a Householder factor with a diagonal gate learn what neither learns alone?

    diagonal   A = diag(a)                            GLA, a in [-1, 1] or in the unit disk
    GH         A = Π_j (I - b_j k_j k_jᵀ)             DeltaNet, n = 1 and 2
    gated GH   A = g Π_j (I - b_j k_j k_jᵀ)           gated DeltaNet, g in [0, 1] for each head
    KDA        A = Π_j (I - b_j k_j k_jᵀ) diag(g)     DeltaNet with a gate for each channel, in [-1, 1] or [0, 1]

A gate of 0 resets, a factor of -1 flips: the languages ask for both. Resets are rare, one letter in sixteen, or a memory of as
many letters as training has would do. One layer each, so that no layer does another's part, and equally many parameters.
"""

from __future__ import annotations

from functools import partial

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Experiment, Series
from eigentrack.experiments.design.models import DISK, NARROW, WIDE, equally_large, layer
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions.regular_languages import (
    PAPER,
    SHORT,
    SMOKE,
    flip_flop_panel,
    language_panel,
    rarely_reset,
    with_steps,
)
from eigentrack.experiments.reporting.columns import HORIZON, constant_column
from eigentrack.experiments.reporting.comparisons import OnlyTogether
from eigentrack.experiments.reporting.series_grid_plot import CAPTION, plot_each_series

PANELS = (
    flip_flop_panel("flip-flop, with resets"),
    rarely_reset("mod 3, with resets", 3, lambda x: x + 1),
    language_panel("Tomita 3", "tomita3"),
    rarely_reset("x+1, 2x, 0 mod 5", 5, lambda x: x + 1, lambda x: 2 * x),
)
DELTA = partial(layer, "deltanet", WIDE, layers=1, heads=HEADS)
SERIES = equally_large(
    (
        Series("diagonal (GLA)", layer("gla", WIDE, layers=1, heads=HEADS)),
        Series("diagonal, disk (GLA)", layer("gla", DISK, layers=1, heads=HEADS)),
        Series("GH, n = 1", DELTA()),
        Series("GH, n = 2", DELTA(householders=2)),
        Series("gated GH, n = 1", DELTA(gate=NARROW)),
        Series("gated GH, n = 2", DELTA(gate=NARROW, householders=2)),
        Series("KDA, n = 1, gates in [0, 1]", DELTA(gate=NARROW, gate_per_channel=True)),
        Series("KDA, n = 1", DELTA(gate=WIDE, gate_per_channel=True)),
        Series("KDA, n = 2", DELTA(gate=WIDE, gate_per_channel=True, householders=2)),
    ),
    mlp_width=2,
)
THEORY = Theory(PANELS, SERIES, PAPER)
KINDS = {
    "diagonal": "a diagonal gate alone",
    "GH": "factors alone",
    "gated GH": "both",
    "KDA": "both",
}  # the kind of a layer, by the beginning of its label
COMPARISON = OnlyTogether(
    KINDS,
    "both",
    "GH stands for n generalised Householder factors per token (DeltaNet), diagonal for gates alone (GLA); gated GH has both "
    "with one gate per head, KDA with one gate per channel.",
)

EXPERIMENT = Experiment(
    name="hybrids",
    title="Gates and Householder factors together: what one layer learns, eigenvalues in [-1, 1] or in the disk",
    question="Does a Householder factor with a diagonal gate learn what neither learns alone?",
    answer=COMPARISON.answer,
    source="none: the paper leaves open what combinations of diagonal and Householder gates can do",
    settings={"smoke": SMOKE, "short": with_steps(SHORT, 2000, warmup=100), "paper": PAPER},
    family="hybrids",
    panels=PANELS,
    series=SERIES,
    setup="one layer, no convolution, MLPs that make all models equally large; resets are one letter in sixteen",
    score=SCALED_ACCURACY,
    findings=(COMPARISON,),
    plot=partial(plot_each_series, models="one layer; GH, KDA: n factors with eigenvalues in [-1, 1]"),
    caption=CAPTION,
    columns=(HORIZON, constant_column(PANELS, PAPER.test.lengths), THEORY.column),
)
