"""The table and the plot of a robustness study: horizon, noise and theory, a row for each network."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.studies.robustness import NetworkFacts

HEAD = ("network", "right in training", "horizon, random", "horizon, worst words", "noise borne", "proved ε", "theory")
MEANING = (
    "- horizon: the longest length at which 99 % of the answers are right, median over the seeds; ≥: as far as it was tested; "
    "all: proved for every length. The worst words are runs of one or two letters, or rare letters.",
    "- noise borne: the largest error in every step, in a random direction, that misread nothing within {letters} letters; "
    "a sample, so at most this is true. In parentheses, of the state's norm.",
    "- proved ε: an error in every number of the state that is borne at every length, by boxes; 0: a theorem says that none "
    "is; ?: not decided.",
    "- theory: can the layer do it in finite precision; can it do it robustly.",
)
FAINTEST = 1e-4  # on a logarithmic axis, in place of 0
PROVED = 4  # times the longest tested length stand those that are proved for all
RING = "ringed: an ε is proved at every length"
MARKERS = {"trained": "o", "snapped": "s", "compiled": "D"}


def table(results: Sequence[NetworkFacts]) -> str:
    letters = max((facts.noisy_letters for facts in results), default=0)
    lines = [*(line.format(letters=letters) for line in MEANING), ""]
    for panel in dict.fromkeys(facts.panel for facts in results):
        rows = (
            _row(series, [facts for facts in results if facts.key == (panel, series)])
            for series in dict.fromkeys(facts.series for facts in results if facts.panel == panel)
        )
        lines += [
            f"### {panel}",
            "",
            *markdown_table(HEAD, rows),
            "",
            *_obstacles([facts for facts in results if facts.panel == panel]),
        ]
    return "\n".join(lines)


def _row(series: str, runs: Sequence[NetworkFacts]) -> list[str]:
    known = [run.validation_accuracy for run in runs if run.validation_accuracy is not None]
    proofs = [run.certified for run in runs if run.certified is not None]
    worst = min(runs, key=lambda run: float("inf") if run.worst_horizon is None else run.worst_horizon)
    pattern = f" ({worst.worst_pattern})" if worst.worst_pattern else ""
    return [
        series,
        f"{statistics.median(known):.3f}" if known else "–",
        _horizon(runs, lambda run: run.random_horizon),
        _horizon(runs, lambda run: run.worst_horizon) + pattern,
        f"{statistics.median(run.noise for run in runs):.2g} ({statistics.median(run.relative_noise for run in runs):.0%})",
        f"{min(proofs):g}" if len(proofs) == len(runs) else "?",
        f"{runs[0].can}; robustly: {runs[0].robustly}",
    ]


def _obstacles(results: Sequence[NetworkFacts]) -> list[str]:
    """Why networks could not be snapped, a line each."""
    lines = [
        f"- {facts.series}, seed {facts.seed}, could not be snapped: {facts.obstacle}" for facts in results if facts.obstacle
    ]
    return [*lines, ""] if lines else []


def _horizon(runs: Sequence[NetworkFacts], of: Callable[[NetworkFacts], int | None]) -> str:
    values = [value for run in runs if (value := of(run)) is not None]
    if len(values) < len(runs):
        return "all"
    middle, tested = statistics.median(values), max(run.tested for run in runs)
    return f"≥ {tested:,}" if middle == tested else f"{middle:,.0f}"


def plot(results: Sequence[NetworkFacts], path: str) -> None:
    """For each language, networks by their horizon on the worst words and the noise that they bear; a ring: an ε is proved."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullLocator

    panels = list(dict.fromkeys(facts.panel for facts in results))
    series = list(dict.fromkeys(facts.series for facts in results))
    trained = list(dict.fromkeys(facts.series for facts in results if facts.kind == "trained"))
    layers = list(dict.fromkeys(map(_layer, series)))
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(3.4 * columns + 3, 3.2 * rows + 0.6),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    longest, trained_to = max(facts.tested for facts in results), max(facts.noisy_letters for facts in results)
    proved = PROVED * longest
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.axvline(trained_to, color="black", linestyle="--", linewidth=1, label=f"longest in training: {trained_to}")
        axes.axvline(math.sqrt(longest * proved), color="0.6", linestyle=":", label="right of it: every length, by proof")
        for facts in (facts for facts in results if facts.panel == panel):
            colour = f"C{layers.index(_layer(facts.series))}"
            alike = trained if facts.kind == "trained" else [name for name in series if name not in trained]
            rank = alike.index(facts.series)
            horizon, apart = (proved, 1.15) if facts.worst_horizon is None else (max(1, facts.worst_horizon), 1.08)
            place = horizon * apart ** (rank - (len(alike) - 1) / 2), max(facts.noise, FAINTEST)
            size = 7.5 - 3 * rank / len(alike)  # what lies under another shows around it
            axes.plot(*place, MARKERS[facts.kind], color=colour, markersize=size, linestyle="", label=facts.series)
            if facts.certified:
                axes.plot(*place, "o", markersize=13, fillstyle="none", color="black", linestyle="", label=RING)
        axes.set(title=panel, xscale="log", yscale="log")
        axes.tick_params(labelbottom=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles = {name: line for axes in grid.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [*series, *(name for name in handles if name not in series)]
    figure.legend([handles[name] for name in names], names, loc="outside right upper", fontsize="small", title=_seeds(results))
    figure.supxlabel(
        f"horizon on the worst words (letters, tested to {longest:,}; equal ones are drawn a little apart)", fontsize="medium"
    )
    figure.supylabel("largest error in every step that is borne", fontsize="medium")
    powers = [10**power for power in range(1 + int(math.log10(longest / 2)))]
    grid[0, 0].set_xticks([*powers, proved], [*(f"{power:,}" for power in powers), "all"])
    grid[0, 0].xaxis.set_minor_locator(NullLocator())
    grid[0, 0].set_yticks([FAINTEST, 1e-3, 1e-2, 1e-1, 1.0], ["none", "0.001", "0.01", "0.1", "1"])
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _layer(series: str) -> str:
    """A snapped network has the colour of the trained one, a compiled one that of its layer where it was trained too."""
    return series.removeprefix("compiled ").removesuffix(", snapped")


def _seeds(results: Sequence[NetworkFacts]) -> str:
    seeds = sorted({facts.seed for facts in results if facts.kind == "trained"})
    return f"every seed a point: {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"one seed: {', '.join(map(str, seeds))}"
