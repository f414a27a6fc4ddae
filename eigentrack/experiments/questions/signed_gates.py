"""Do GLA, Mamba-2 and mLSTM track state once their gates may be negative? Each of them is trained in both ranges.

As published these layers have positive gates only, of which they compute the logarithms. GLA with gates in the unit disk stands
beside them: its gates rotate the state instead of flipping its sign.

Parity takes one flip; a walk on a cycle of four, and Z4 with all its elements as letters, take two layers of flips.

GLA's gates are range(σ(logit)^(1/τ)). At the temperature τ = 16, GLA's default in [0, 1], gates start near 1, and a gate of
-0.99 takes a logit of -85. At τ = 1, the default in [-1, 1], gates start at 0.958, and -0.99 takes a logit of -5.3. Further
series have τ = 16 in [-1, 1], and τ = 1 with gates that start in the middle of the range.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Experiment, Panel, Series
from eigentrack.experiments.design.models import DISK, WIDE, in_both_ranges, layer
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions.regular_languages import PAPER, SHORT, SMOKE, group_panel
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.reporting.comparisons import SignHelps
from eigentrack.experiments.reporting.series_grid_plot import CAPTION, plot_each_series
from eigentrack.layers.gla import TEMPERATURE

PANELS = (
    Panel("parity", "parity", {"last_weight": 0.0}),
    Panel("cycle of 4", "cycle-navigation", {"places": 4}),
    group_panel("Z4", "Z4"),
)
FLAT, RIVAL = f"GLA, temperature {TEMPERATURE:g} [-1, 1]", "GLA, disk"
SERIES = (
    *in_both_ranges("GLA", layer("gla", layers=2, heads=HEADS)),
    *in_both_ranges("GLA, from the middle", layer("gla", layers=2, heads=HEADS, gate_temperature=1.0)),
    *in_both_ranges("Mamba-2", layer("mamba2", layers=2, heads=HEADS)),
    *in_both_ranges("mLSTM", layer("mlstm", layers=2, heads=HEADS)),
    Series(FLAT, layer("gla", WIDE, layers=2, heads=HEADS, gate_temperature=TEMPERATURE)),
    Series(RIVAL, layer("gla", DISK, layers=2, heads=HEADS)),
)
COMPARISON = SignHelps(("GLA", "GLA, from the middle", "Mamba-2", "mLSTM"), FLAT, RIVAL)

EXPERIMENT = Experiment(
    name="signed_gates",
    title="Signed gates in GLA, Mamba-2 and mLSTM, two layers, beside gates that turn",
    question="Do GLA, Mamba-2 and mLSTM track state once their gates may be negative?",
    answer=COMPARISON.answer,
    source="none: the paper widens Mamba and DeltaNet alone, for the kernels of the others compute gates as logarithms",
    settings={
        "smoke": SMOKE,
        "short": replace(
            SHORT,
            d_model=32,
            training=replace(SHORT.training, steps=1000, batch=32, warmup=50),
            rates=(1e-2, 3e-3),
        ),
        "paper": PAPER,
    },
    family="signed_gates",
    panels=PANELS,
    series=SERIES,
    setup="two layers, no convolution",
    score=SCALED_ACCURACY,
    findings=(COMPARISON,),
    plot=partial(plot_each_series, models="two layers"),
    caption=CAPTION,
    columns=(HORIZON, Theory(PANELS, SERIES, PAPER).column),
)
