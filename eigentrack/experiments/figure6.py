"""Figure 6 of the workshop version (its appendix E.3.2): addition modulo 60, with 1 and with 2 tokens an element, by length.

Beside the paper's models one whose gates turn, which counts modulo anything with a diagonal matrix.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_sequence_accuracy
from eigentrack.experiments.experiment import DEAD_BY, HORIZON, Experiment, Series, Settings, grid
from eigentrack.experiments.open_questions import DISK, layer
from eigentrack.experiments.paper_agreement import FITTED, budget_lines
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


def findings(results: Sequence[CellResult]) -> list[str]:
    """Who gets furthest in tokens, whether the wide range helps, and whether the second token does, in elements."""
    reach: dict[tuple[str, str], float] = {}
    for key in dict.fromkeys(result.key for result in results):
        reach[key] = statistics.median(run.scores.right_to for run in results if run.key == key)
    lines = []
    for panel in dict.fromkeys(panel for panel, _ in reach):
        ours = {series: length for (where, series), length in reach.items() if where == panel}
        furthest = max(ours.values())
        best = ", ".join(series for series, length in ours.items() if length == furthest)
        twins = [(name, name.replace("[-1, 1]", "[0, 1]")) for name in ours if "[-1, 1]" in name]
        gains = [f"{wide} {ours[wide]:.0f} ({ours[narrow]:.0f})" for wide, narrow in twins if narrow in ours]
        fitted = max(run.validation_accuracy for run in results if run.panel == panel)
        compared = f"; in the wide range (in the narrow one) {', '.join(gains)}" if gains else ""
        lines.append(
            f"{panel}: furthest is {best}, right to {furthest:.0f}{compared};"
            f" best validation accuracy {fitted:.3f}{', so nobody fits the training length' if fitted < FITTED else ''}."
        )
    both = [series for panel, series in reach if panel == TWO and (ONE, series) in reach]
    if both:
        helped = [series for series in both if reach[TWO, series] // 2 > reach[ONE, series]]
        lines.append(f"Over more elements with a second token for each: {', '.join(helped) or 'nobody'}.")
    return lines + budget_lines(results, SETTINGS["paper"].training.steps)


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
    findings=findings,
    differences=(
        *DIFFERENCES,
        "GLA in the disk is ours; the paper has no layer whose gates turn.",
        "With 2 tokens an element lengths count tokens: right to 13 is right to 6 elements.",
    ),
)
