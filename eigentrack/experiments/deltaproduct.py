"""DeltaProduct (Siems et al. 2025, the authors' sequel): one layer with n Householder factors a token, on S3, S4, A5 and S5.

S_m acts on m - 1 dimensions, where m - 1 reflections make any element: 4 for S5, 2 for S3. A5 and S4 are also the rotations of
a solid, and a rotation in three dimensions is a product of 2.

Settings of the sequel: trained at length 128, tested to 512, batch 2048, rate 1e-3 with a cosine, 8 heads, no convolution, no
gate, 100 passes. Taken from Figure 3: width 128, weight decay 0.01, passes of 1.6 million sequences (78,125 steps).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.experiments import word_problems
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_sequence_accuracy
from eigentrack.experiments.experiment import DEAD_BY, HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.paper_agreement import READING, Reach, budget_lines, reach_lines
from eigentrack.experiments.theory import Theory

GROUPS = ("S3", "S4", "A5", "S5")
FACTORS = (1, 2, 3, 4)

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


PANELS = tuple(Panel(name, "group", {"name": name, "begin_token": True}) for name in GROUPS)


def label(factors: int) -> str:
    return f"n = {factors}"


def _series(heads: int) -> tuple[Series, ...]:
    options = {"heads": heads, "conv": 0}
    return tuple(
        Series(label(n), {"mixer": "deltanet", "layers": 1, "mixer_options": {**options, "householders": n}}) for n in FACTORS
    )


THEORY = Theory(PANELS, _series(4))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("deltaproduct", PANELS, _series(settings.heads), settings, seeds)


PAPER_VALUES = {
    ("S3", label(1)): "fails: S3 needs n = 2",
    ("S3", label(2)): "generalises",
    ("S4", label(2)): "generalises",
    ("A5", label(2)): "generalises",
    ("S5", label(1)): "dead by about 10",
    ("S5", label(2)): "dead by about 10",
    ("S5", label(3)): "dead by about 50",
    ("S5", label(4)): "right to about 200, dead by 500",
}


PAPER_REACH = {  # the same as bounds on lengths
    ("S3", label(1)): Reach(wrong_at=256),
    **{(name, label(2)): Reach(right_at=256) for name in ("S3", "S4", "A5")},
    ("S5", label(1)): Reach(dead_at=10),
    ("S5", label(2)): Reach(dead_at=10),
    ("S5", label(3)): Reach(dead_at=50),
    ("S5", label(4)): Reach(right_at=200),
}


def findings(results: Sequence[CellResult]) -> list[str]:
    """The fewest factors that were learned, beside theory's, then the paper's curves."""
    said = []
    for panel in dict.fromkeys(result.panel for result in results):
        reach = {n: [run for run in results if run.key == (panel, label(n))] for n in FACTORS}
        learned = [n for n, runs in reach.items() if runs and _median_right_to(runs) >= 2 * runs[0].trained_to]
        enough = min((n for n in FACTORS if THEORY.answer(panel, label(n)) == "can"), default="–")
        said.append(f"{panel} {min(learned)} ({enough})" if learned else f"{panel} none of {FACTORS[-1]} ({enough})")
    fewest = (
        f"The fewest factors right at twice the training length, and in brackets those enough in theory: {'; '.join(said)}."
    )
    reaches = reach_lines(results, PAPER_REACH, PAPER_VALUES)
    return [fewest, READING, *reaches, *budget_lines(results, PAPER.training.steps)]


def _median_right_to(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.scores.right_to for run in runs)


EXPERIMENT = Experiment(
    name="deltaproduct",
    title="How many Householder factors a group needs, in one layer",
    source="the word problems of Siems et al. 2025; its curves are described here in words",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=word_problems.SCORE,
    plot=partial(plot_sequence_accuracy, models="DeltaNet [-1, 1], one layer, n factors a token"),
    columns=(DEAD_BY, HORIZON, THEORY.column),
    paper={"DeltaProduct paper": PAPER_VALUES},
    paper_budget=PAPER,
    findings=findings,
    differences=("Every training sequence is new.", "Width 128 and weight decay 0.01: the sequel's are not known here."),
)
