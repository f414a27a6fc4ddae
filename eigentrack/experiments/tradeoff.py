"""Does tracking state cost recall? Four layers in both ranges, each on associative recall and on the word problem of S5.

Recall: 24 pairs of a key and a value, more than a head has dimensions at the short budget, then 16 questions. S5: swaps of
five points, trained at length 32, scored at twice that. With a short convolution, which joins a key to its value.

The question is asked of each layer in its two ranges, which differ in nothing else. Layers differ in the size of their state,
and with it in what they can recall: the legend names it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.open_questions import NARROW, PAPER, SHORT, SMOKE, WIDE

RECALL, TRACKING = "recall", "S5, swaps"
PAIRS, QUESTIONS, TRAINED = 24, 16, 32
LENGTH = 2 * PAIRS + QUESTIONS  # of recall, and twice the training length of S5
PANELS = (
    Panel(
        RECALL,
        "recall",
        {"keys": 64, "values": 64, "pairs": PAIRS, "queries": QUESTIONS},
        training={"lengths": (LENGTH, LENGTH)},
    ),
    Panel(TRACKING, "group", {"name": "S5", "inputs": "swaps"}, training={"lengths": (TRAINED, TRAINED)}),
)
TEST = LengthTest((LENGTH, LENGTH), 2048, far=512)


def _series(heads: int) -> list[Series]:
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "DeltaNet": ("deltanet", {"heads": heads}),
        "gated DeltaNet": ("deltanet", {"heads": heads, "gate": NARROW}),
        "Mamba": ("mamba", {}),
        "GLA": ("gla", {"heads": heads}),
    }
    return [
        Series(
            f"{label} [{low:g}, {high:g}]",
            {"mixer": mixer, "mixer_options": {**options, "conv": 4}, "layers": 2, "eigenvalues": [low, high]},
        )
        for label, (mixer, options) in models.items()
        for low, high in (NARROW, WIDE)
    ]


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("tradeoff", PANELS, _series(settings.heads), settings, seeds)


def plot(results: Sequence[CellResult], path: str) -> None:
    """The seeds as faint points, their medians as large ones, and an arrow from [0, 1] to [-1, 1]."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 6), layout="constrained")
    models = list(dict.fromkeys(result.series.rsplit(" [", 1)[0] for result in results))
    for number, model in enumerate(models):
        ends = []
        for (low, high), marker in zip((NARROW, WIDE), "os", strict=True):
            series = f"{model} [{low:g}, {high:g}]"
            recall, tracking = (_by_seed(results, panel, series) for panel in (RECALL, TRACKING))
            if not recall or not tracking:
                continue
            shared = sorted(recall.keys() & tracking.keys())
            axes.plot([recall[s] for s in shared], [tracking[s] for s in shared], marker, color=f"C{number}", alpha=0.3)
            ends.append((statistics.median(recall.values()), statistics.median(tracking.values())))
            state = next(result.state_size for result in results if result.series == series)
            name = f"{series}, state {state:,}"
            axes.plot(*ends[-1], marker, color=f"C{number}", markersize=10, linestyle="", label=name)
        if len(ends) == 2:
            axes.annotate(
                "", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": f"C{number}", "shrinkA": 6, "shrinkB": 6}
            )
    trained_to = max((result.trained_to for result in results if result.panel == TRACKING), default=TRAINED)
    axes.set(
        xlabel=f"recall: scaled accuracy of the values asked for, of {PAIRS} pairs",
        ylabel=f"S5, swaps: scaled accuracy at length {LENGTH}, trained at {trained_to}",
        xlim=(-0.05, 1.05),
        ylim=(-0.05, 1.05),
        title="State tracking against recall (0: guessing); large: median, faint: seeds",
    )
    axes.legend(fontsize="small", loc="best")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _by_seed(results: Sequence[CellResult], panel: str, series: str) -> dict[int, float]:
    return {result.seed: result.scores.scaled_accuracy for result in results if result.key == (panel, series)}


EXPERIMENT = Experiment(
    name="tradeoff",
    title="State tracking against recall, in both ranges",
    source="none: the paper asks whether the wide range costs other abilities, and measures language models only",
    settings={
        "smoke": replace(SMOKE, test=replace(TEST, sequences=4, far=0)),
        "short": replace(SHORT, training=replace(SHORT.training, steps=4000, warmup=200), test=TEST),
        "paper": replace(PAPER, test=replace(TEST, sequences=8192)),
    },
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot,
)
