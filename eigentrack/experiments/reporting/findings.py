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
from eigentrack.experiments.reporting.wording import all_of, counted, joined, nested, quoted, verb
from eigentrack.experiments.running.task_cell import CellResult

CLOSE = 0.1  # two scores agree if their best seeds and their medians differ by no more
MOSTLY_FITTED = 0.9  # the share of right answers at the training lengths from which a model mostly fits them
READING = (
    "A model counts as right at a length where 90 % of its sequences are right, and as dead where fewer than 10 % are, both in "
    "the median over the seeds. Where the paper says “generalises”, we ask for right at twice the training length; where it "
    "says “poor” or “fails”, for the opposite."
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


def never_fails(run: CellResult) -> bool:
    """Return whether 99 % of the answers are right at every length that was tested."""
    return run.scores.horizon == run.scores.longest > 0


@dataclass(frozen=True)
class BesidePaper:
    """One model beside the paper: its best and its median score, and the larger of the differences from the paper's."""

    key: Key
    best: float
    median: float
    paper_best: float
    paper_median: float

    @property
    def difference(self) -> float:
        return max(self.best - self.paper_best, self.median - self.paper_median, key=abs)

    @property
    def is_close(self) -> bool:
        return abs(self.difference) <= CLOSE


def beside_paper(results: Sequence[CellResult], paper: Mapping[Key, str]) -> list[BesidePaper]:
    """Return every model of which the paper has a best and a median score, as "best [median]", beside these scores."""
    compared = []
    for key, runs in by_key(results).items():
        if key in paper:
            found = spread([run.scores.scaled_accuracy for run in runs])
            best, median = map(float, re.findall(r"\d*\.\d+", paper[key])[:2])
            compared.append(BesidePaper(key, found.best, found.median, best, median))
    return compared


@dataclass(frozen=True)
class PaperNumbers:
    """Scaled accuracies beside the paper's: who agrees, and a line for each model that stays below or comes out above."""

    paper: Mapping[Key, str]
    source: str = "the paper"
    where: str = ""  # the beginning of each sentence, such as "On parity, "

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        compared = beside_paper(results, self.paper)
        close, lines = [model for model in compared if model.is_close], []
        if close:
            names = all_of([model.key[1] for model in close])
            lines.append(
                f"{self.where}{len(close)} of {counted(len(compared), 'model')} {verb(len(close))} within {CLOSE} of "
                f"{self.source}, by the best seed and by the median: {names}."
            )
        for model in sorted((model for model in compared if not model.is_close), key=lambda model: model.difference):
            way = "stays below" if model.difference < 0 else "comes out above"
            lines.append(
                f"{self.where}{quoted(model.key[1])} {way} {self.source}: its best seed scores {model.best:.3f} and its median "
                f"{model.median:.3f}, where {self.source} has {model.paper_best:.3f} and {model.paper_median:.3f}."
            )
        return lines


@dataclass(frozen=True)
class PaperNumbersByPanel:
    """Scaled accuracies beside the paper's, panel by panel."""

    paper: Mapping[Key, str]

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        panels = by_panel(results).items()
        return [line for panel, runs in panels for line in PaperNumbers(self.paper, where=f"On {quoted(panel)}, ")(runs)]


@dataclass(frozen=True)
class Horizons:
    """A finding on how far each model is right on one panel, in the median, and how many of its networks never fail."""

    panel: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        said = []
        for model, runs in by_series([run for run in results if run.panel == self.panel]).items():
            unbroken = sum(map(never_fails, runs))
            to_the_end = (
                f"{unbroken or 'none'} of {counted(len(runs), 'network')} {verb(unbroken or 1)} right to the end of the test"
            )
            said.append(f"{model}: up to length {median_horizon(runs):,.0f}; {to_the_end}.")
        lead = f"On {quoted(self.panel)}, 99 % of the answers are right up to these lengths, in the median over the seeds:"
        return [nested(lead, said)] if said else []


@dataclass(frozen=True)
class Reach:
    """The bounds that a curve of the paper sets: a length where a model is right, no longer right, or dead."""

    right_at: float = 0
    wrong_at: float = math.inf
    dead_at: float = math.inf

    def holds(self, right_to: float, dead_by: float) -> bool:
        return right_to >= self.right_at and right_to < self.wrong_at and dead_by <= self.dead_at


@dataclass(frozen=True)
class PaperCurves:
    """Lengths beside the paper's curves: who does as the paper says, who does not, and where nothing was learned at all.

    `words` are those that the page's table has for the curves.
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
                ours = f"{_said(*reaches[key])}, with a validation accuracy of {fitted:.3f}"
                miss.append(f"{quoted(panel)}, {quoted(key[1])}: {ours}. The paper: {self.words[key]}.")
            if (best := max(run.validation_accuracy for run in runs)) < MOSTLY_FITTED:
                unfitted.append(f"{quoted(panel)} (best validation accuracy {best:.3f})")
            elif agreed:
                agree.append(f"{panel}: {_listed({key[1]: reaches[key] for key in agreed})}.")
        lines = [READING, *([nested("These models do as the paper's:", agree)] if agree else [])]
        lines += [nested("These models do not do as the paper's:", miss)] if miss else []
        if unfitted:
            lines.append(
                f"No model fits the training length on {joined(unfitted)}, so that a model that fails there as the paper's "
                "does shows nothing."
            )
        return lines


@dataclass(frozen=True)
class FewerSteps:
    """A line where we trained for fewer steps than the paper."""

    steps: int

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        most = max((result.steps for result in results), default=self.steps)
        fewest = min((result.steps for result in results if result.diverged_at is None), default=most)
        ours = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
        words = (
            f"These networks were trained for {ours} steps and the paper's for {self.steps:,}: where ours stay below, the "
            "budget may be why."
        )
        return [words] if most < self.steps else []


def _listed(reaches: Mapping[str, tuple[float, float]]) -> str:
    """Name the models, or where there are more of them than one reads, sum them up."""
    if len(reaches) < 4:
        return "; ".join(f"{quoted(name)} is {_said(*reach)}" for name, reach in reaches.items())
    furthest = _said(*(max(reach[side] for reach in reaches.values()) for side in (0, 1)))
    return f"{len(reaches)} models, which are {furthest} at the most"


def _said(right_to: float, dead_by: float) -> str:
    return f"right up to length {right_to:,.0f}" + (f" and dead by {dead_by:,.0f}" if dead_by < math.inf else "")


def _median_reach(runs: Sequence[CellResult]) -> tuple[float, float]:
    dead = [math.inf if run.scores.dead_by is None else run.scores.dead_by for run in runs]
    return median_right_to(runs), statistics.median(dead)
