"""Recall against state tracking, in both ranges: the picture of both, and what the wide range does to the recall."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eigentrack.experiments.reporting.findings import by_key
from eigentrack.experiments.reporting.wording import all_of, joined, nested, quoted, rounded, verb
from eigentrack.experiments.running.task_cell import CellResult

CAPTION = (
    "Recall (horizontal) and state tracking (vertical) as scaled accuracy, where 0 is guessing and 1 is perfect; small marks "
    "are seeds, large ones medians, and an arrow leads from a layer in [0, 1] to its twin in [-1, 1]."
)
RANGES = ("[0, 1]", "[-1, 1]")  # how the labels of twins end
COST = 0.02  # a loss of recall that counts
SOLVED, GUESSED = 0.9, 0.1  # scores from which a task counts as learned, and below which as not learned at all


@dataclass(frozen=True)
class RecallAndTracking:
    """The labels of the two panels, of a layer whose range alone differs, and what the axes say."""

    recall: str
    tracking: str
    flat: str  # a series beside the twins
    pairs: int
    length: int
    trained: int

    def plot(self, results: Sequence[CellResult], path: str) -> None:
        """Draw the seeds as small points, their medians as a ring or a frame, and an arrow from [0, 1] to [-1, 1]."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(9.8, 6), layout="constrained")
        models = list(dict.fromkeys(result.series.rsplit(" [", 1)[0] for result in results))
        for number, model in enumerate(models):
            ends, colour = [], f"C{number}"
            for width, marker, size in zip(RANGES, "os", (10, 16), strict=True):  # a ring fits into a frame
                runs = [result for result in results if result.series == f"{model} {width}"]
                points, label = self._points(runs), _label(runs)
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
        trained_to = max((result.trained_to for result in results if result.panel == self.tracking), default=self.trained)
        seeds = sorted({result.seed for result in results})
        named = f"small: seeds {', '.join(map(str, seeds))}, large: median" if len(seeds) > 1 else f"one seed: {seeds[0]}"
        axes.set(
            xlabel=f"recall: scaled accuracy of the values asked for, of {self.pairs} pairs",
            ylabel=f"S5, swaps: scaled accuracy at length {self.length}, trained at {trained_to}",
            title=f"State tracking against recall (0: guessing); {named}",
        )
        axes.title.set_fontsize("medium")  # it fits beside the legend
        axes.margins(0.08)
        axes.update_datalim([(0, 0), (1, 1)])
        axes.autoscale_view()
        figure.legend(fontsize="small", loc="outside right upper", labelspacing=1, title="○ [0, 1] → □ [-1, 1]")
        figure.savefig(path, format="png", dpi=130)
        pyplot.close(figure)

    def _points(self, runs: Sequence[CellResult]) -> list[tuple[float, float]]:
        """Return recall and tracking of every seed that has both; a run that diverged has neither."""
        recall, tracking = (
            {run.seed: run.scores.scaled_accuracy for run in runs if run.panel == panel and run.diverged_at is None}
            for panel in (self.recall, self.tracking)
        )
        return [(recall[seed], tracking[seed]) for seed in sorted(recall.keys() & tracking.keys())]

    def findings(self, results: Sequence[CellResult]) -> list[str]:
        """Say what the wide range does to the recall of each layer, and which layers track."""
        found, lines = self._summed_up(results), []
        if found.recall:
            items = [
                f"{layer}: a median of {rounded(narrow)} in [0, 1] and of {rounded(wide)} in [-1, 1]"
                + (", where the seeds overlap." if layer in found.unclear else ".")
                for layer, (narrow, wide) in found.recall.items()
            ]
            lines.append(nested(f"The wide range {found.verdict}.", items))
        if (self.recall, self.flat) in found.medians:
            lines.append(
                "If the range alone changes, so that gates move as slowly as in [0, 1] and start at 0.915, the median recall "
                f"is {rounded(found.medians[self.recall, self.flat])} ({self.flat})."
            )
        if found.silent:
            lines.append(
                f"{all_of(found.silent)} {verb(len(found.silent), 'does', 'do')} not learn recall in either range (below "
                f"{GUESSED}), so nothing is said of its cost there."
            )
        tracking = {series: median for (panel, series), median in found.medians.items() if panel == self.tracking}
        if tracking:
            tracks = [f"{quoted(series)} ({rounded(median)})" for series, median in tracking.items() if median >= SOLVED]
            others = {series: median for series, median in tracking.items() if median < SOLVED}
            best = max(others, key=lambda series: others[series], default=None)
            rest = f" The best of the others is {best}, with {rounded(others[best])}." if best else ""
            who = joined(tracks) if tracks else "no layer"
            lines.append(f"{quoted(self.tracking)} is tracked to twice the training length by {who}.{rest}")
        if len({result.seed for result in results}) == 1:
            lines.append("There is only one seed, so that we do not know how much of this is chance.")
        return lines

    def answer(self, results: Sequence[CellResult]) -> str:
        """Say whether the wide range costs recall, and what the layers that track recall in both ranges."""
        found = self._summed_up(results)
        if not found.recall:
            return ""
        tracks = [layer for layer in found.recall if found.medians.get((self.tracking, f"{layer} {RANGES[1]}"), 0.0) >= SOLVED]
        said = [
            f"{layer} recalls {rounded(found.recall[layer][1])} ({rounded(found.recall[layer][0])} in [0, 1])"
            for layer in tracks
        ]
        verdict = f"The wide range {found.verdict}."
        if not said:
            return f"{verdict} No layer of which recall is known tracks {quoted(self.tracking)} in [-1, 1]."
        tracked = f"Of the layers that track {quoted(self.tracking)} in [-1, 1]"
        return f"{verdict} {tracked}, {joined(said)}, in medians of scaled accuracy."

    def _summed_up(self, results: Sequence[CellResult]) -> _Summary:
        layers = list(dict.fromkeys(result.series.rsplit(" [", 1)[0] for result in results))
        scores = {key: [run.scores.scaled_accuracy for run in runs] for key, runs in by_key(results).items()}
        medians = {key: statistics.median(of_key) for key, of_key in scores.items()}
        in_ranges = {layer: [(self.recall, f"{layer} {width}") for width in RANGES] for layer in layers}
        recall = {
            layer: (medians[narrow], medians[wide])
            for layer, (narrow, wide) in in_ranges.items()
            if narrow in medians and wide in medians
        }
        informative = {layer: pair for layer, pair in recall.items() if max(pair) >= GUESSED}
        lower = [layer for layer, (narrow, wide) in informative.items() if narrow - wide > COST]
        losers = [layer for layer in lower if max(scores[in_ranges[layer][1]]) < min(scores[in_ranges[layer][0]])]
        unclear = [layer for layer in lower if layer not in losers]
        if losers:
            verdict = f"costs recall in {all_of(losers)}"
        elif unclear:
            overlap = f"the medians of {all_of(unclear)} fall, but the seeds overlap"
            verdict = f"costs no layer recall beyond what differs between seeds ({overlap})"
        else:
            verdict = f"costs no layer more than {COST} of its recall"
        return _Summary(medians, informative, [layer for layer in recall if layer not in informative], unclear, verdict)


class _Summary(NamedTuple):
    medians: dict[tuple[str, str], float]
    recall: dict[str, tuple[float, float]]  # medians in [0, 1] and in [-1, 1], of the layers that learn recall in one of them
    silent: list[str]  # layers that do not
    unclear: list[str]  # layers with a lower median in [-1, 1], and seeds that overlap
    verdict: str  # what the wide range does


def _label(runs: Sequence[CellResult]) -> str:
    diverged = {run.seed for run in runs if run.diverged_at is not None}
    states = [f"{run.series}, state {run.state_size:,}" for run in runs[:1]]
    return "".join(states) + (f"; {len(diverged)} of {len({run.seed for run in runs})} seeds diverged" if diverged else "")
