"""Kinds of findings, I: where our results agree with the paper's, how far models are right, and whether it was the budget.

A finding is called with the results that a page shows, and returns lines for it. The paper reports numbers, best [median] over
the seeds, or curves, of which a bound on a length is read.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from eigentrack.experiments.design.experiment import Key
from eigentrack.experiments.design.rate_choice import spread
from eigentrack.experiments.running.task_cell import CellResult

CLOSE = 0.1  # in best and in median: then the two agree
MOSTLY_FITTED = 0.9  # of the answers at the training lengths
READING = (
    "By the median over the seeds; right: 90 % of the sequences, dead: fewer than 10 %; the paper's “generalises” is read as "
    "right at twice the training length, “poor” and “fails” as not."
)
Run = TypeVar("Run", bound=CellResult)
Name = TypeVar("Name", bound=Hashable)


def grouped(results: Sequence[Run], name: Callable[[Run], Name]) -> dict[Name, list[Run]]:
    """Return the results by what `name` says of each, in the order in which the names come up."""
    found: dict[Name, list[Run]] = {}
    for result in results:
        found.setdefault(name(result), []).append(result)
    return found


def by_panel(results: Sequence[Run]) -> dict[str, list[Run]]:
    return grouped(results, lambda result: result.panel)


def by_series(results: Sequence[Run]) -> dict[str, list[Run]]:
    return grouped(results, lambda result: result.series)


def by_key(results: Sequence[Run]) -> dict[Key, list[Run]]:
    return grouped(results, lambda result: result.key)


def median_score(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.scores.scaled_accuracy for run in runs)


def median_horizon(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.scores.horizon for run in runs)


def median_right_to(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.scores.right_to for run in runs)


@dataclass(frozen=True)
class PaperNumbers:
    """Scaled accuracies beside the paper's: a line each for the models that agree, that stay below and that come out above."""

    paper: Mapping[Key, str]
    source: str = "the paper"

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        close: list[str] = []
        below: list[str] = []
        above: list[str] = []
        for key, runs in by_key(results).items():
            if key not in self.paper:
                continue
            found = spread([run.scores.scaled_accuracy for run in runs])
            best, median = map(float, re.findall(r"\d*\.\d+", self.paper[key])[:2])
            difference = max(found.best - best, found.median - median, key=abs)
            ours = f"{key[1]} {found.best:.3f} [{found.median:.3f}]"
            if abs(difference) <= CLOSE:
                close.append(ours)
            else:
                (below if difference < 0 else above).append(f"{ours}, paper {self.paper[key]}")
        titles = {
            f"Within {CLOSE} of {self.source}, best [median]": close,
            f"Below {self.source}, best [median]": below,
            f"Above {self.source}, best [median]": above,
        }
        return [f"{title}: {'; '.join(models)}." for title, models in titles.items() if models]


@dataclass(frozen=True)
class PaperNumbersByPanel:
    """The same, panel by panel."""

    paper: Mapping[Key, str]

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        panels = by_panel(results).items()
        return [line for panel, runs in panels for line in PaperNumbers(self.paper, f"the paper on {panel}")(runs)]


@dataclass(frozen=True)
class Horizons:
    """How far each model is right on one panel: its median and all its seeds, and how many never fail."""

    panel: str
    opening: str = ""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        said = []
        for model, runs in by_series([run for run in results if run.panel == self.panel]).items():
            unbroken = sum(run.scores.horizon == run.scores.longest > 0 for run in runs)
            each = ", ".join(f"{run.scores.horizon:,}" for run in runs)
            said.append(f"{model} to {median_horizon(runs):,.0f} ({each}), and {unbroken} of {len(runs)} to the end")
        words = f"{self.opening}99 % of the answers are right, median over the seeds and each: {'; '.join(said)}."
        return [words] if said else []


@dataclass(frozen=True)
class Reach:
    """What a curve says of a model: right (90 % of the sequences) at a length, no longer right at one, dead (10 %) at one."""

    right_at: float = 0
    wrong_at: float = math.inf
    dead_at: float = math.inf

    def holds(self, right_to: float, dead_by: float) -> bool:
        return right_to >= self.right_at and right_to < self.wrong_at and dead_by <= self.dead_at


@dataclass(frozen=True)
class PaperCurves:
    """Lengths beside the paper's curves: what agrees, what does not, and where nothing was learned at all.

    `words` are those of the page's table.
    """

    paper: Mapping[Key, Reach]
    words: Mapping[Key, str]

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        agree, miss, unfitted = [], [], []
        for panel, runs in by_panel(results).items():
            reaches = {key: _median_reach(of_key) for key, of_key in by_key(runs).items()}
            missed = [key for key, reach in reaches.items() if key in self.paper and not self.paper[key].holds(*reach)]
            agreed = [key for key in reaches if key in self.paper and key not in missed]
            for key in missed:
                fitted = statistics.median(run.validation_accuracy for run in runs if run.key == key)
                ours = f"{_said(*reaches[key])}, validation accuracy {fitted:.3f}"
                miss.append(f"{panel}: {key[1]} ({ours}; paper: {self.words[key]})")
            if (best := max(run.validation_accuracy for run in runs)) < MOSTLY_FITTED:
                unfitted.append(f"{panel} (best validation accuracy {best:.3f})")
            elif agreed:
                agree.append(f"{panel}: {_listed({key[1]: reaches[key] for key in agreed})}")
        lines = [READING, *([f"As in the paper: {'; '.join(agree)}."] if agree else [])]
        lines += [f"Not as in the paper: {'; '.join(miss)}."] if miss else []
        if unfitted:
            lines.append(
                f"No model fits the training length of {', '.join(unfitted)}: there even models that fail as expected show "
                "nothing."
            )
        return lines


@dataclass(frozen=True)
class FewerSteps:
    """A line where ours were fewer than the paper's steps."""

    steps: int

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        most = max((result.steps for result in results), default=self.steps)
        fewest = min((result.steps for result in results if result.diverged_at is None), default=most)
        ours = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
        words = f"{ours} steps here, {self.steps:,} in the paper: a miss may be one of budget."
        return [words] if most < self.steps else []


def _listed(reaches: Mapping[str, tuple[float, float]]) -> str:
    """Name the models, or where there are more of them than one reads, sum them up."""
    if len(reaches) < 4:
        return ", ".join(f"{name} ({_said(*reach)})" for name, reach in reaches.items())
    furthest = _said(*(max(reach[side] for reach in reaches.values()) for side in (0, 1)))
    return f"{len(reaches)} models ({furthest} at the most)"


def _said(right_to: float, dead_by: float) -> str:
    return f"right to {right_to:,.0f}" + (f", dead by {dead_by:,.0f}" if dead_by < math.inf else "")


def _median_reach(runs: Sequence[CellResult]) -> tuple[float, float]:
    dead = [math.inf if run.scores.dead_by is None else run.scores.dead_by for run in runs]
    return median_right_to(runs), statistics.median(dead)
