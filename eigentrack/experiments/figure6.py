"""Figure 6 of the workshop version (its appendix E.3.2): addition modulo 60, with 1 and with 2 tokens an element, by length.

Beside the paper's models one whose gates turn, which counts modulo anything with a diagonal matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.curve_plot import plot_sequence_accuracy
from eigentrack.experiments.experiment import DEAD_BY, HORIZON, Experiment, Series, Settings, grid
from eigentrack.experiments.open_questions import DISK, layer
from eigentrack.experiments.word_problems import DIFFERENCES, SCORE, SETTINGS, group_panel, linear_series

ONE, TWO = "Z60, 1 token an element", "Z60, 2 tokens an element"
PANELS = (group_panel(ONE, "Z60"), group_panel(TWO, "Z60", tokens=2))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    rival = Series("GLA, disk, 5 blocks", {**layer("gla", DISK, heads=settings.heads), "layers": 5})
    return grid("z60", PANELS, [*linear_series(settings), rival], settings, seeds)


PAPER_VALUES = {
    (panel, series): value
    for panel in (ONE, TWO)
    for series, value in {
        "Mamba [-1, 1], 5 blocks": "best of all, yet short of good generalisation",
        "Mamba [0, 1], 5 blocks": "worse than [-1, 1]",
        "DeltaNet [-1, 1], 5 blocks": "below Mamba [-1, 1]; 2 tokens help only marginally",
        "DeltaNet [0, 1], 5 blocks": "worse than [-1, 1]",
    }.items()
}

EXPERIMENT = Experiment(
    name="figure6",
    title="Word problem of the cyclic group Z60: sequence accuracy by length",
    source="Figure 6, workshop version (one seed); its curves are described here in words",
    settings=SETTINGS,
    cells=_cells,
    score=SCORE,
    plot=plot_sequence_accuracy,
    columns=(DEAD_BY, HORIZON),
    paper={"paper": PAPER_VALUES},
    paper_budget=SETTINGS["paper"],
    differences=(*DIFFERENCES, "GLA in the disk is ours; the paper has no layer whose gates turn."),
)
