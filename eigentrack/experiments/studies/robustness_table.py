"""The table and the plot of a robustness study: horizon, noise and theory, a row for each network."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.wording import counted, joined, verb
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
CAPTION = (
    "For each language, the length up to which a network is right on the worst words (horizontal) and the largest error in "
    "every step that it bears (vertical); the dashed line marks the longest training length, and right of the dotted line "
    "every length is proved."
)
KINDS = {
    "trained": "were trained",
    "snapped": "were snapped from trained weights to exact ones",
    "compiled": "were compiled from the language",
}
FAINTEST = 1e-4  # drawn in place of 0, as the axis is logarithmic
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
    """Return why networks could not be snapped, in a line each."""
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


def is_open(facts: NetworkFacts) -> bool:
    """Return whether the network is right on the worst words at every tested length, or by proof at every length."""
    return facts.worst_horizon is None or facts.worst_horizon >= facts.tested


def answer(results: Sequence[NetworkFacts]) -> str:
    """Count the networks that are right on the worst words to the end of the test, and those with a proved error."""
    trained = [facts for facts in results if facts.kind == "trained"]
    if not trained:
        return ""
    groups = {
        words: [facts for facts in trained if facts.series.endswith("LSTM") == non_linear]
        for words, non_linear in (("non-linear ones (sLSTM and LSTM)", True), ("linear ones", False))
    }
    counts = [f"{sum(map(is_open, runs))} of {len(runs)} {words}" for words, runs in groups.items() if runs]
    proved = [facts for facts in results if facts.certified]
    kinds = joined(dict.fromkeys(facts.series for facts in proved)) if proved else ""
    tested = max(facts.tested for facts in trained)
    said = f"Of the trained networks {joined(counts)} are right on the worst words up to length {tested:,}."
    if not proved:
        return f"{said} For no network is an error in every step proved to be borne at every length."
    return (
        f"{said} An error in every step is proved to be borne at every length for {len(proved)} of all {len(results)} "
        f"networks, namely those of the kind “{kinds}”."
    )


def findings(results: Sequence[NetworkFacts]) -> list[str]:
    """Say by kind of network how many are right to the end, and how often random words hide that a network fails."""
    lines = []
    for kind, words in KINDS.items():
        if runs := [facts for facts in results if facts.kind == kind]:
            proved = sum(facts.worst_horizon is None for facts in runs)
            lines.append(
                f"{sum(map(is_open, runs))} of {counted(len(runs), 'network')} that {words} are right on the worst words as "
                f"far as they were tested; for {proved or 'none'} of them this is proved for every length."
            )
    hidden = [
        facts
        for facts in results
        if facts.random_horizon is not None and facts.random_horizon >= facts.tested and not is_open(facts)
    ]
    lines.append(
        f"{counted(len(hidden), 'network')} {verb(len(hidden))} right on random words as far as they were tested, and "
        f"{verb(len(hidden), 'fails', 'fail')} on the worst ones: a test on random words does not show it."
    )
    obstacles = sum(bool(facts.obstacle) for facts in results)
    if obstacles:
        lines.append(f"{counted(obstacles, 'trained network')} could not be snapped to exact weights; the tables say why.")
    return lines


def plot(results: Sequence[NetworkFacts], path: str) -> None:
    """Draw the networks of each language by horizon on the worst words and noise borne, ringed if an ε is proved."""
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
    """Return the layer that gives a network its colour, so that trained, snapped and compiled networks of a layer share it."""
    return series.removeprefix("compiled ").removesuffix(", snapped")


def _seeds(results: Sequence[NetworkFacts]) -> str:
    seeds = sorted({facts.seed for facts in results if facts.kind == "trained"})
    return f"every seed a point: {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"one seed: {', '.join(map(str, seeds))}"
