"""Where our results agree with the paper's, and where they miss them: lines for a page, computed from the results.

The paper reports numbers, best [median] over the seeds, or curves, of which a bound on a length is read.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.seeds import Key, spread

CLOSE = 0.1  # in best and in median: then the two agree
FITTED = 0.9  # of the answers at the training lengths
READING = (
    "By the median over the seeds; right: 90 % of the sequences, dead: fewer than 10 %; the paper's “generalises” is read as "
    "right at twice the training length, “poor” and “fails” as not."
)


def number_lines(results: Sequence[CellResult], paper: Mapping[Key, str], source: str) -> list[str]:
    """Of scaled accuracies, a line each for the models that agree, that stay below and that come out above."""
    close: list[str] = []
    below: list[str] = []
    above: list[str] = []
    for key in [key for key in dict.fromkeys(result.key for result in results) if key in paper]:
        found = spread([result.scores.scaled_accuracy for result in results if result.key == key])
        best, median = map(float, re.findall(r"\d*\.\d+", paper[key])[:2])
        difference = max(found.best - best, found.median - median, key=abs)
        ours = f"{key[1]} {found.best:.3f} [{found.median:.3f}]"
        if abs(difference) <= CLOSE:
            close.append(ours)
        else:
            (below if difference < 0 else above).append(f"{ours}, paper {paper[key]}")
    titles = {
        f"Within {CLOSE} of {source}, best [median]": close,
        f"Below {source}, best [median]": below,
        f"Above {source}, best [median]": above,
    }
    return [f"{title}: {'; '.join(models)}." for title, models in titles.items() if models]


def number_lines_by_panel(results: Sequence[CellResult], paper: Mapping[Key, str]) -> list[str]:
    by_panel = {panel: [run for run in results if run.panel == panel] for panel in dict.fromkeys(run.panel for run in results)}
    return [line for panel, runs in by_panel.items() for line in number_lines(runs, paper, f"the paper on {panel}")]


def horizon_line(results: Sequence[CellResult]) -> str:
    """Of one panel: how far each model is right, its median and all its seeds, and how many never fail."""
    said = []
    for model in dict.fromkeys(result.series for result in results):
        runs = [result for result in results if result.series == model]
        reaches = [run.scores.horizon for run in runs]
        unbroken = sum(run.scores.horizon == run.scores.longest > 0 for run in runs)
        each = ", ".join(f"{reach:,}" for reach in reaches)
        said.append(f"{model} to {statistics.median(reaches):,.0f} ({each}), and {unbroken} of {len(runs)} to the end")
    return f"99 % of the answers are right, median over the seeds and each: {'; '.join(said)}."


@dataclass(frozen=True)
class Reach:
    """What a curve says of a model: right (90 % of the sequences) at a length, no longer right at one, dead (10 %) at one."""

    right_at: float = 0
    wrong_at: float = math.inf
    dead_at: float = math.inf

    def holds(self, right_to: float, dead_by: float) -> bool:
        return right_to >= self.right_at and right_to < self.wrong_at and dead_by <= self.dead_at


def reach_lines(results: Sequence[CellResult], paper: Mapping[Key, Reach], words: Mapping[Key, str]) -> list[str]:
    """What agrees, what does not, and where nothing was learned at all. `words` are those of the page's table."""
    agree, miss, unfitted = [], [], []
    for panel in dict.fromkeys(result.panel for result in results):
        runs = [result for result in results if result.panel == panel]
        reaches = {key: _median_reach([run for run in runs if run.key == key]) for key in {run.key: None for run in runs}}
        missed = [key for key, reach in reaches.items() if key in paper and not paper[key].holds(*reach)]
        agreed = [key for key in reaches if key in paper and key not in missed]
        for key in missed:
            fitted = statistics.median(run.validation_accuracy for run in runs if run.key == key)
            ours = f"{_said(*reaches[key])}, validation accuracy {fitted:.3f}"
            miss.append(f"{panel}: {key[1]} ({ours}; paper: {words[key]})")
        if (best := max(run.validation_accuracy for run in runs)) < FITTED:
            unfitted.append(f"{panel} (best validation accuracy {best:.3f})")
        elif agreed:
            agree.append(f"{panel}: {_listed({key[1]: reaches[key] for key in agreed})}")
    lines = [f"As in the paper: {'; '.join(agree)}."] if agree else []
    lines += [f"Not as in the paper: {'; '.join(miss)}."] if miss else []
    if unfitted:
        lines.append(
            f"No model fits the training length of {', '.join(unfitted)}: there even models that fail as expected show nothing."
        )
    return lines


def budget_lines(results: Sequence[CellResult], steps: int) -> list[str]:
    """A line where ours were fewer than the paper's steps."""
    most = max((result.steps for result in results), default=steps)
    fewest = min((result.steps for result in results if result.diverged_at is None), default=most)
    ours = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return [f"{ours} steps here, {steps:,} in the paper: a miss may be one of budget."] if most < steps else []


def _listed(reaches: Mapping[str, tuple[float, float]]) -> str:
    """By name, or where there are more of them than one reads, all at once."""
    if len(reaches) < 4:
        return ", ".join(f"{name} ({_said(*reach)})" for name, reach in reaches.items())
    furthest = _said(*(max(reach[side] for reach in reaches.values()) for side in (0, 1)))
    return f"{len(reaches)} models ({furthest} at the most)"


def _said(right_to: float, dead_by: float) -> str:
    return f"right to {right_to:,.0f}" + (f", dead by {dead_by:,.0f}" if dead_by < math.inf else "")


def _median_reach(runs: Sequence[CellResult]) -> tuple[float, float]:
    dead = [math.inf if run.scores.dead_by is None else run.scores.dead_by for run in runs]
    return statistics.median(run.scores.right_to for run in runs), statistics.median(dead)
