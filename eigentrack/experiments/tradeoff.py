"""Does tracking state cost recall? Layers in both ranges, each on associative recall and on the word problem of S5.

Recall: 24 pairs of a key and a value, more than a head has dimensions at the short budget, then 16 questions. S5: swaps of
five points, trained at length 32, scored at twice that. With a short convolution, which joins a key to its value.

The question is asked of each layer in its two ranges, which differ in nothing else. Layers differ in the size of their state,
and with it in what they can recall: the legend names it.

GLA's gates start at 0.958 in both ranges, and are steeper in [-1, 1], at a temperature of 1 and not 16. Beside them: what the
range alone does, at the temperature of 16, where gates of [-1, 1] start at 0.915; and steep gates that start nearer to 1.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import HORIZON, Column, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.open_questions import NARROW, PAPER, SHORT, SMOKE, WIDE
from eigentrack.layers.gla import SIGNED_TEMPERATURE, TEMPERATURE

RECALL, TRACKING = "recall", "S5, swaps"
PAIRS, QUESTIONS, TRAINED = 24, 16, 32
NAMES, CONVOLUTION = 64, 4  # keys, and as many values
FLAT, NEARER = f"GLA, temperature {TEMPERATURE:g} [-1, 1]", f"GLA, temperature {SIGNED_TEMPERATURE:g}, from 0.99"
LENGTH = 2 * PAIRS + QUESTIONS  # of recall, and twice the training length of S5
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


def _series(heads: int) -> list[Series]:
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "DeltaNet": ("deltanet", {"heads": heads}),
        "gated DeltaNet": ("deltanet", {"heads": heads, "gate": NARROW}),
        "Mamba": ("mamba", {}),
        "GLA": ("gla", {"heads": heads}),
        NEARER: ("gla", {"heads": heads, "gate_temperature": SIGNED_TEMPERATURE, "first_gates": [0.99, 0.99]}),
    }

    def model(mixer: str, options: dict[str, Any], eigenvalues: list[float]) -> dict[str, Any]:
        return {"mixer": mixer, "mixer_options": {**options, "conv": CONVOLUTION}, "layers": 2, "eigenvalues": eigenvalues}

    both = [
        Series(f"{label} [{low:g}, {high:g}]", model(mixer, options, [low, high]))
        for label, (mixer, options) in models.items()
        for low, high in (NARROW, WIDE)
    ]
    flat = {"heads": heads, "gate_temperature": TEMPERATURE}
    return [*both, Series(FLAT, model("gla", flat, WIDE))]


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("tradeoff", PANELS, _series(settings.heads), settings, seeds)


def plot(results: Sequence[CellResult], path: str) -> None:
    """The seeds as small points, their medians as a ring or a frame, and an arrow from [0, 1] to [-1, 1]."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9.8, 6), layout="constrained")
    models = list(dict.fromkeys(result.series.rsplit(" [", 1)[0] for result in results))
    for number, model in enumerate(models):
        ends, colour = [], f"C{number}"
        for (low, high), marker, size in zip((NARROW, WIDE), "os", (10, 16), strict=True):  # a ring fits into a frame
            runs = [result for result in results if result.series == f"{model} [{low:g}, {high:g}]"]
            points, label = _points(runs), _label(runs)
            if points:
                axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=3)
                ends.append(tuple(statistics.median(values) for values in zip(*points, strict=True)))
                (median,) = axes.plot(*ends[-1], marker, color=colour, markersize=size, label=label)
                median.set(fillstyle="none", markeredgewidth=1.8)
            elif "diverged" in label:
                axes.plot([], [], linestyle="", label=label)
        if len(ends) == 2:
            arrow = {"arrowstyle": "->", "color": colour, "shrinkA": 7, "shrinkB": 11}
            axes.annotate("", ends[1], ends[0], arrowprops=arrow)
    trained_to = max((result.trained_to for result in results if result.panel == TRACKING), default=TRAINED)
    seeds = sorted({result.seed for result in results})
    named = f"small: seeds {', '.join(map(str, seeds))}, large: median" if len(seeds) > 1 else f"one seed: {seeds[0]}"
    axes.set(
        xlabel=f"recall: scaled accuracy of the values asked for, of {PAIRS} pairs",
        ylabel=f"S5, swaps: scaled accuracy at length {LENGTH}, trained at {trained_to}",
        title=f"State tracking against recall (0: guessing); {named}",
    )
    axes.title.set_fontsize("medium")  # it fits beside the legend
    axes.margins(0.08)
    axes.update_datalim([(0, 0), (1, 1)])
    axes.autoscale_view()
    figure.legend(fontsize="small", loc="outside right upper", labelspacing=1, title="○ [0, 1] → □ [-1, 1]")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _points(runs: Sequence[CellResult]) -> list[tuple[float, float]]:
    """Recall and tracking of every seed that has both; a run that diverged has neither."""
    recall, tracking = (
        {run.seed: run.scores.scaled_accuracy for run in runs if run.panel == panel and run.diverged_at is None}
        for panel in (RECALL, TRACKING)
    )
    return [(recall[seed], tracking[seed]) for seed in sorted(recall.keys() & tracking.keys())]


def _label(runs: Sequence[CellResult]) -> str:
    diverged = {run.seed for run in runs if run.diverged_at is not None}
    states = [f"{run.series}, state {run.state_size:,}" for run in runs[:1]]
    return "".join(states) + (f"; {len(diverged)} of {len({run.seed for run in runs})} seeds diverged" if diverged else "")


COST = 0.02  # a loss of recall that counts
SOLVED, GUESSED = 0.9, 0.1  # scores from which a task counts as learned, and below which as not learned at all


def findings(results: Sequence[CellResult]) -> list[str]:
    """What the wide range does to the recall of each layer, and which layers track."""
    layers = list(dict.fromkeys(result.series.rsplit(" [", 1)[0] for result in results))
    scores = {
        key: [result.scores.scaled_accuracy for result in results if result.key == key]
        for key in dict.fromkeys(result.key for result in results)
    }
    medians = {key: statistics.median(of_key) for key, of_key in scores.items()}
    in_ranges = {layer: [(RECALL, f"{layer} [{low:g}, {high:g}]") for low, high in (NARROW, WIDE)] for layer in layers}
    recall = {
        layer: (medians[narrow], medians[wide])
        for layer, (narrow, wide) in in_ranges.items()
        if narrow in medians and wide in medians
    }
    lines = []
    informative = {layer: pair for layer, pair in recall.items() if max(pair) >= GUESSED}
    if informative:
        lower = [layer for layer, (narrow, wide) in informative.items() if narrow - wide > COST]
        losers = [layer for layer in lower if max(scores[in_ranges[layer][1]]) < min(scores[in_ranges[layer][0]])]
        unclear = [layer for layer in lower if layer not in losers]
        said = ", ".join(f"{layer} {narrow:.3f} → {wide:.3f}" for layer, (narrow, wide) in informative.items())
        if losers:
            verdict = f"costs recall in {', '.join(losers)}"
        else:
            verdict = "costs no layer a recall that shows" if unclear else f"costs no layer more than {COST} of its recall"
        overlap = f" ({', '.join(unclear)}: the seeds overlap)" if unclear else ""
        lines.append(f"The wide range {verdict}{overlap}: medians from [0, 1] to [-1, 1] {said}.")
    if (RECALL, FLAT) in medians:
        lines.append(
            f"The range alone, with gates as flat as in [0, 1] and a start of 0.915: {FLAT} {medians[RECALL, FLAT]:.3f}."
        )
    if silent := [layer for layer in recall if layer not in informative]:
        lines.append(
            f"{', '.join(silent)}: recall is not learned in either range (below {GUESSED}), so nothing is said of its cost."
        )
    tracking = {series: median for (panel, series), median in medians.items() if panel == TRACKING}
    if tracking:
        tracks = [f"{series} ({median:.3f})" for series, median in tracking.items() if median >= SOLVED]
        others = {series: median for series, median in tracking.items() if median < SOLVED}
        best = max(others, key=lambda series: others[series], default=None)
        rest = f" The best of the others: {best}, {others[best]:.3f}." if best else ""
        lines.append(f"S5 is tracked to twice the training length by {', '.join(tracks) or 'no layer'}.{rest}")
    if len({result.seed for result in results}) == 1:
        lines.append("One seed: how much of this is chance is not known.")
    return lines


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
    findings=findings,
    setup=f"two layers with a convolution of width {CONVOLUTION}; recall: {PAIRS} pairs of {NAMES} keys and {NAMES} values, "
    f"then {QUESTIONS} questions, at one length, {LENGTH}; S5: swaps, trained at length {TRAINED}",
    columns=(
        Column(
            HORIZON.title,
            f"{HORIZON.meaning}; – for recall, which has one length",
            lambda runs: "–" if runs[0].panel == RECALL else HORIZON.show(runs),
        ),
    ),
    plot=plot,
)
