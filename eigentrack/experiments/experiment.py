"""Experiment: panels (tasks) × series (models) × learning rates × seeds, and what the paper found for each.

cells    one training run each, at the settings of a budget
score    the figure that the report's table shows for every seed
paper    the paper's values, by the column's title, then by (panel, series)
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.language_models import LanguageSettings
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.seeds import Key
from eigentrack.training import TrainingConfig
from eigentrack.training.run import RunConfig

BUDGETS = ("smoke", "short", "paper")
NO_CLIP = 1e9  # a norm that no gradient reaches


@dataclass(frozen=True)
class Settings:
    """What a budget decides. `floor` is the rate at which the cosine ends; None: the rate stays what it is after warm-up."""

    d_model: int
    training: TrainingConfig  # but for the rate, its end and the seed, which every cell sets
    rates: tuple[float, ...]
    floor: float | None
    seeds: tuple[int, ...]
    test: LengthTest
    pilot: bool = False  # all rates on the first seed; the others at the rate that its validation chose
    heads: int = 4
    validate_every: int = 1000
    checkpoint_every: int = 1000
    telemetry_every: int = 0  # never

    def facts(self) -> dict[str, str]:
        """For the report's page."""
        return {
            "test": self.test.words,
            "early stop": "none, a cell that has solved its task goes on: the slow end of the schedule carries a solution to "
            "longer inputs",
        }


@dataclass(frozen=True)
class Panel:
    """A task; `model` and `training` hold what it changes in every series."""

    label: str
    task: str
    options: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """A model, without its width; `training` and `task` hold what it changes there in every panel."""

    label: str
    model: dict[str, Any]
    training: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    title: str
    of: Callable[[Any], float]
    digits: int = 3  # after the point

    def show(self, value: float) -> str:
        return f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class Column:
    """A further figure of the report's table, over all seeds of a model; `meaning` is printed above the table."""

    title: str
    meaning: str
    show: Callable[[Sequence[Any]], str]  # of results of the experiment's kind


def _horizon(runs: Sequence[CellResult]) -> str:
    reach, longest = statistics.median(run.scores.horizon for run in runs), max(run.scores.longest for run in runs)
    if longest == 0:  # all diverged
        return "–"
    return f"≥ {longest:,}" if reach == longest else f"{reach:,.0f}"


def _dead_by(runs: Sequence[CellResult]) -> str:
    reach = statistics.median(math.inf if run.scores.dead_by is None else run.scores.dead_by for run in runs)
    return "never" if reach == math.inf else f"{reach:,.0f}"


HORIZON = Column(
    "horizon",
    "the longest length up to which 99 % of the answers are right, from the shortest that training asks for; median over the "
    "seeds",
    _horizon,
)
DEAD_BY = Column("dead by", "the length from which fewer than 10 % of the sequences are right, median over the seeds", _dead_by)


@dataclass(frozen=True)
class Experiment:
    """`every_rate`: the learning rate is an axis, and none is chosen; `table` then writes the results its own way."""

    name: str
    title: str
    source: str  # which table or figure of which version
    settings: Mapping[str, Settings | LanguageSettings]  # by budget
    cells: Callable[[Any, Sequence[int]], list[Cell]]  # of settings of this kind, and seeds
    score: Score
    plot: Callable[[Sequence[Any], str], None]
    columns: tuple[Column, ...] = (HORIZON,)
    paper: dict[str, dict[Key, str]] = field(default_factory=dict)
    findings: Callable[[Sequence[Any]], Sequence[str]] | None = None  # of the results shown: what they answer, a line each
    paper_budget: Settings | LanguageSettings | None = None  # with which the paper got its values
    differences: tuple[str, ...] = ()  # from the paper, at every budget
    setup: str = ""  # what its cells have in common, or were chosen by, and no table says
    every_rate: bool = False
    table: Callable[[Sequence[Any]], str] | None = None
    prepare: Callable[[Any, Path, Callable[[str], None]], None] | None = None  # makes in the folder what all cells need
    # results, cells, their folder, settings, say → results in place of the first: what more is measured of the networks
    study: Callable[[Sequence[Any], Sequence[Cell], Path, Any, Callable[[str], None]], Sequence[Any]] | None = None


def grid(
    family: str, panels: Sequence[Panel], series: Sequence[Series], settings: Settings, seeds: Sequence[int]
) -> list[Cell]:
    """Every combination, the first seed before the second, so that a sweep cut short has whole seeds."""
    return [
        Cell(family, panel.label, model.label, _run(panel, model, settings, rate, seed), settings.test)
        for seed in seeds
        for panel in panels
        for model in series
        for rate in settings.rates
    ]


def _run(panel: Panel, series: Series, settings: Settings, rate: float, seed: int) -> RunConfig:
    final = 1.0 if settings.floor is None else min(1.0, settings.floor / rate)
    changes = {**series.training, **panel.training, "learning_rate": rate, "final_rate": final, "seed": seed}
    return RunConfig(
        task=panel.task,
        task_options={**panel.options, **series.task},
        model={"d_model": settings.d_model, **series.model, **panel.model},
        training=replace(settings.training, **changes),
        validate_every=settings.validate_every,
        checkpoint_every=settings.checkpoint_every,
        telemetry_every=settings.telemetry_every,
        stop_when_solved=False,  # the slow end of the schedule is part of the method: it carries a solution to longer inputs
    )
