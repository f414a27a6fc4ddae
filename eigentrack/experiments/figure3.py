"""Figure 3 (workshop and ICLR version): the word problem of S5, all of it and three easier forms, by sequence length.

swaps       inputs move at most 2 points: one Householder factor with eigenvalue -1 does each
up to 3     inputs move at most 3 points
4 tokens    every element is followed by 3 fillers, which give the layer time for 4 factors
all         any of the 120 elements
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_sequence_accuracy
from eigentrack.experiments.experiment import DEAD_BY, HORIZON, Experiment, Settings, grid
from eigentrack.experiments.paper_agreement import READING, Reach, budget_lines, reach_lines
from eigentrack.experiments.word_problems import (
    DIFFERENCES,
    PAPER,
    SCORE,
    SETTINGS,
    full_matrix_series,
    group_panel,
    linear_series,
)

SWAPS, UP_TO_3, FOUR_TOKENS, ALL = "S5, swaps", "S5, up to 3 points", "S5, 4 tokens an element", "S5, all"
PANELS = (
    group_panel(SWAPS, "S5", inputs="swaps"),
    group_panel(UP_TO_3, "S5", inputs="upto3"),
    group_panel(FOUR_TOKENS, "S5", tokens=4),
    group_panel(ALL, "S5"),
)


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("s5", PANELS, [*linear_series(settings), full_matrix_series(settings)], settings, seeds)


WIDE_1, WIDE_5, NARROW_5 = "DeltaNet [-1, 1], 1 block", "DeltaNet [-1, 1], 5 blocks", "DeltaNet [0, 1], 5 blocks"
MAMBA = ("Mamba [0, 1], 5 blocks", "Mamba [-1, 1], 5 blocks")
PAPER_VALUES = {
    (SWAPS, WIDE_1): "learned in full: right to 500",
    (SWAPS, NARROW_5): "fits length 32, hardly beyond",
    (UP_TO_3, WIDE_5): "generalises well",
    (UP_TO_3, NARROW_5): "below [-1, 1]",
    (FOUR_TOKENS, WIDE_5): "right to about 120 (workshop), 120–200 (ICLR)",
    **{(panel, series): "poor" for panel in (SWAPS, UP_TO_3, FOUR_TOKENS) for series in MAMBA},
    **{
        (ALL, series): "0 before length 20 (workshop), 30 (ICLR)"
        for series in (WIDE_1, WIDE_5, NARROW_5, "DeltaNet [0, 1], 1 block", *MAMBA, "full matrix, 1 block")
    },
}

PAPER_REACH = {  # the same as bounds on lengths: who generalises is right at twice the training length, who is poor is not
    (SWAPS, WIDE_1): Reach(right_at=500),
    (SWAPS, NARROW_5): Reach(right_at=32, wrong_at=64),
    (UP_TO_3, WIDE_5): Reach(right_at=64),
    (FOUR_TOKENS, WIDE_5): Reach(right_at=120),
    **{(panel, series): Reach(wrong_at=64) for panel in (SWAPS, UP_TO_3) for series in MAMBA},
    **{(FOUR_TOKENS, series): Reach(wrong_at=128) for series in MAMBA},
    **{key: Reach(dead_at=30) for key in PAPER_VALUES if key[0] == ALL},
}


def findings(results: Sequence[CellResult]) -> list[str]:
    return [READING, *reach_lines(results, PAPER_REACH, PAPER_VALUES), *budget_lines(results, PAPER.training.steps)]


EXPERIMENT = Experiment(
    name="figure3",
    title="Word problems of S5: sequence accuracy by length",
    source="Figure 3, workshop and ICLR version; its curves are described here in words",
    settings=SETTINGS,
    cells=_cells,
    score=SCORE,
    plot=plot_sequence_accuracy,
    columns=(DEAD_BY, HORIZON),
    paper={"paper": PAPER_VALUES},
    paper_budget=SETTINGS["paper"],
    findings=findings,
    differences=(
        *DIFFERENCES,
        "With 4 tokens an element lengths count tokens, and an answer is due with the third filler: right to 7 is the first "
        "element alone, for from token 8 on two of them count.",
        "Of the full matrix the paper says in words only that in some settings it falls off quickly after some length.",
    ),
)
