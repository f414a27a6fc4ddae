"""The table and the plot of a robustness study: horizon, noise and theory, a row for each network."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from eigentrack.experiments.robustness_study import NetworkFacts

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
MARKERS = {"trained": "o", "snapped": "s", "compiled": "D"}


def table(results: Sequence[NetworkFacts]) -> str:
    letters = max((facts.noisy_letters for facts in results), default=0)
    lines = [*(line.format(letters=letters) for line in MEANING), ""]
    for panel in dict.fromkeys(facts.panel for facts in results):
        lines += [f"### {panel}", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        for series in dict.fromkeys(facts.series for facts in results if facts.panel == panel):
            runs = [facts for facts in results if facts.key == (panel, series)]
            lines.append("| " + " | ".join(_row(series, runs)) + " |")
        lines += ["", *_obstacles([facts for facts in results if facts.panel == panel])]
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

    panels = list(dict.fromkeys(facts.panel for facts in results))
    series = list(dict.fromkeys(facts.series for facts in results))
    colour = dict(zip(series, pyplot.colormaps["turbo"]([(i + 0.5) / len(series) for i in range(len(series))]), strict=True))
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(3.4 * columns + 2, 3.2 * rows), squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    longest = max(facts.tested for facts in results)
    handles = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        for facts in (facts for facts in results if facts.panel == panel):
            apart = 1.025 ** (series.index(facts.series) - len(series) / 2)  # equal results stay visible
            horizon = 2 * longest if facts.worst_horizon is None else max(1, facts.worst_horizon)
            place = horizon * apart, max(facts.noise, FAINTEST) * apart
            (handles[facts.series],) = axes.plot(*place, MARKERS[facts.kind], color=colour[facts.series], linestyle="")
            if facts.certified:
                axes.plot(*place, "o", markersize=13, markerfacecolor="none", markeredgecolor="black")
        axes.set(title=panel, xscale="log", yscale="log")
        axes.axvline(1.25 * longest, color="0.8", linestyle=":")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.legend([handles[name] for name in series], series, loc="outside right upper", fontsize="small")
    figure.supxlabel("horizon on the worst words (right of the line: every length, by proof)")
    figure.supylabel("error in every step that is borne", fontsize="medium")
    grid[0, 0].set_yticks([FAINTEST, 1e-3, 1e-2, 1e-1, 1.0], ["none", "0.001", "0.01", "0.1", "1"])
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)
