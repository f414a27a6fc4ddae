"""Predicted beside observed horizons: what each trained network's training lengths predict, and where it fails on random words.

Counted are networks that are right at all their training lengths: of the others the training lengths show the horizon itself.
The order of the predictions is measured by Spearman's correlation of ranks, their size by the median factor between the two.
Networks that had not failed where the test ended, or are not predicted to, count with its end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigentrack.analysis import InspectedNetwork, predict_horizon
from eigentrack.experiments.design.experiment import Column, Settings
from eigentrack.experiments.reporting.findings import by_series, grouped
from eigentrack.experiments.reporting.wording import counted, nested, quoted, verb
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.task_cell import FITTED, CellResult, kept_networks, with_more
from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask

FEWEST = 5  # networks for a correlation of their ranks
CHOSEN_ON = 2  # the method was chosen on seeds that this divides; the other seeds were held out
CAPTION = (
    "Observed horizon on random words (vertical) by the horizon that was predicted from the training lengths alone "
    "(horizontal), a mark for each network; filled marks are held-out seeds, and the line is where both are equal."
)


@dataclass(frozen=True)
class PredictedResult(CellResult):
    """The result of a cell with its predicted horizon; None for a network that does not fit its training lengths."""

    predicted: int | None = None

    @property
    def observed(self) -> int:
        return self.scores.horizon

    @property
    def counts(self) -> bool:
        """Whether a horizon was predicted, and lies beyond the training lengths, where it has to be predicted."""
        return self.predicted is not None and self.observed >= self.trained_to

    @property
    def is_held_out(self) -> bool:
        return self.seed % CHOSEN_ON != 0


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[PredictedResult]:
    """Return the results with the predicted horizon of every network that fits its training lengths."""
    longest = max(settings.test.far, settings.test.lengths[1])
    found = []
    for result, cell, network in kept_networks(results, cells, folder):
        predicted, task = None, cell.run.build_task()
        if network is not None and result.validation_accuracy >= FITTED and isinstance(task, TrackingTask):
            inspected = InspectedNetwork.from_task(load_model(network), task)
            predicted = predict_horizon(inspected, result.trained_to, longest, seed=result.seed).letters
        found.append(with_more(PredictedResult, result, predicted=predicted))
    say(f"predicted the horizons of {sum(result.predicted is not None for result in found)} of {len(found)} networks")
    return found


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's correlation: that of the ranks, where equal values share the mean of their ranks."""
    first, second = _ranks(one), _ranks(other)
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else math.nan


def _ranks(values: Sequence[float]) -> Any:
    _, place, count = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def typical_factor(results: Sequence[PredictedResult]) -> float:
    """Return the median factor between predicted and observed horizons, at least 1."""
    return statistics.median(math.exp(abs(math.log(max(1, run.predicted or 0) / max(1, run.observed)))) for run in results)


def _agreement(runs: Sequence[PredictedResult]) -> str:
    """Say how well the two horizons of networks agree; nothing for fewer than FEWEST of them."""
    if len(runs) < FEWEST:
        return ""
    correlation = rank_correlation([run.predicted or 0 for run in runs], [run.observed for run in runs])
    ranks = "ranks are all alike" if math.isnan(correlation) else f"the ranks correlate by {correlation:.2f}"
    return f"{ranks}, and half of the predictions are within a factor of {typical_factor(runs):.1f} ({len(runs)} networks)"


def answer(results: Sequence[PredictedResult]) -> str:
    """Say how well predicted and observed horizons agree, on held-out seeds and on all."""
    beyond = [run for run in results if run.counts]
    held_out = _agreement([run for run in beyond if run.is_held_out])
    return f"Roughly: on held-out seeds {held_out}; on all seeds {_agreement(beyond)}." if held_out else ""


def findings(results: Sequence[PredictedResult]) -> list[str]:
    """Say how well the prediction does on the seeds it was chosen on, on held-out ones, and for each layer and task."""
    beyond, fitted = [run for run in results if run.counts], [run for run in results if run.predicted is not None]
    if not fitted:
        return []
    groups: dict[str, Sequence[PredictedResult]] = {
        "seeds on which the method was chosen": [run for run in beyond if not run.is_held_out],
        "held-out seeds": [run for run in beyond if run.is_held_out],
        **by_series(beyond),
        **grouped(beyond, lambda run: run.panel),
    }
    lines = [f"{quoted(name)}: {said}." for name, runs in groups.items() if (said := _agreement(runs))]
    known, every = len(fitted) - len(beyond), _agreement(fitted)
    return [
        nested("Predicted beside observed horizons beyond the training lengths:", lines),
        f"Of {counted(len(fitted), 'network')} with {FITTED:.0%} of the answers right over the training lengths, {known} "
        f"{verb(known, 'falls', 'fall')} below that at one of these lengths. Their horizon is seen there and not predicted, so "
        f"that they count nowhere above{f'; with them {every}' if every else ''}.",
    ]


def _shown(runs: Sequence[PredictedResult]) -> str:
    ordered = sorted(runs, key=lambda run: run.seed)
    return ", ".join("–" if run.predicted is None else f"{run.predicted:,} / {run.observed:,}" for run in ordered)


COLUMN = Column(
    "predicted / observed",
    "the horizon predicted from the training lengths, and the observed one, every seed; a dash where the network does not fit "
    "its training lengths",
    _shown,
)


def plot(results: Sequence[PredictedResult], path: str) -> None:
    """Draw every network that counts, by its predicted and its observed horizon."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for number, (series, runs) in enumerate(by_series([run for run in results if run.counts]).items()):
        for held_out in (False, True):
            chosen = [run for run in runs if run.is_held_out == held_out]
            axes.plot(
                [run.predicted or 0 for run in chosen],
                [run.observed for run in chosen],
                "osD^v"[number % 5],
                color=f"C{number}",
                fillstyle="full" if held_out else "none",
                label=series if held_out else None,
                alpha=0.8,
                linestyle="",
            )
    longest = max((run.scores.longest for run in results), default=1)
    axes.plot([1, longest], [1, longest], color="0.6", linewidth=1)
    shortest = min((run.trained_to for run in results), default=1) * 0.8
    axes.set(xscale="log", yscale="log", xlim=(shortest, 1.3 * longest), ylim=(shortest, 1.3 * longest))
    axes.set(xlabel="predicted horizon (letters)", ylabel="observed horizon (letters)")
    if axes.get_legend_handles_labels()[0]:  # none where no network counts
        axes.legend(fontsize="small")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)
