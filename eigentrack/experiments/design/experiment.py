"""Experiment: a table of panels (tasks) × series (models), trained at learning rates and seeds that a budget names.

A definition is data. Where a value depends on the budget, `OfBudget` stands for it; it is filled in when cells are made.

panels × series × rates × seeds   one cell each
score      the figure that the report's table shows for every seed
paper      the paper's values, by the column's title, then by (panel, series)
question   what the experiment asks, in one sentence; `answer` computes the answer from the results (`reporting/answers.py`)
findings   what else the results show, by kinds of findings (`reporting/findings.py`, `reporting/comparisons.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.running.task_cell import CellResult, TaskCell
from eigentrack.training import TrainingConfig
from eigentrack.training.run import RunConfig

BUDGETS = ("smoke", "short", "paper")
NO_CLIP = 1e9  # a norm that no gradient reaches
Key = tuple[str, str]  # panel, series
Finding = Callable[[Sequence[Any]], Sequence[str]]  # from the results shown to lines of the page
Answer = Callable[[Sequence[Any]], str]  # from the results shown to one or two sentences, or to none


@dataclass(frozen=True)
class OfBudget:
    """A value in a panel or a series that depends on the budget's settings."""

    of: Callable[[Settings], Any]


HEADS = OfBudget(lambda settings: settings.heads)


def trained_for(times: float, at_most: int | None = None) -> dict[str, Any]:
    """Return a change of the training: so many times the budget's steps, but no more steps than `at_most`."""

    def scaled(settings: Settings, name: str) -> int:
        most = times if at_most is None else min(times, at_most / settings.training.steps)
        return round(most * getattr(settings.training, name))

    return {name: OfBudget(lambda settings, name=name: scaled(settings, name)) for name in ("steps", "warmup")}  # type: ignore[misc]


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
    """A model, without its width; `training` and `task` hold what it changes there in every panel.

    `label` may name values of the model in braces, as "d = {d_model}" does.
    """

    label: str
    model: dict[str, Any]
    training: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)


class BudgetSettings(Protocol):
    """The settings of a budget, for experiments on tasks (`Settings`) or on language models (`LanguageSettings`)."""

    chooses_rates: ClassVar[bool]  # whether validation chooses between `rates`; else each model has its own

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def rates(self) -> tuple[float, ...]: ...

    @property
    def pilot(self) -> bool: ...

    @property
    def test(self) -> Any: ...

    def cells(self, experiment: Experiment, seeds: Sequence[int]) -> list[Any]: ...

    def facts(self) -> dict[str, str]:
        """Return what the page says of the budget, by name."""

    def size_words(self, cells: Sequence[Any]) -> str:
        """Say how many steps the models of these cells are trained for, and how large they are."""


@dataclass(frozen=True)
class Settings:
    """The settings of a budget for tasks. The cosine ends at the rate `floor`; None keeps the rate constant after warm-up."""

    chooses_rates: ClassVar[bool] = True

    d_model: int
    training: TrainingConfig  # all but the rate, its end and the seed, which every cell sets
    rates: tuple[float, ...]
    floor: float | None
    seeds: tuple[int, ...]
    test: LengthTest
    pilot: bool = False  # all rates on the first seed; the others at the rate that its validation chose
    heads: int = 4
    validate_every: int = 1000
    checkpoint_every: int = 1000
    telemetry_every: int = 0  # never

    def cells(self, experiment: Experiment, seeds: Sequence[int]) -> list[TaskCell]:
        return grid(experiment.family, experiment.panels, experiment.series, self, seeds, experiment.chosen_rates)

    def filled_in(self, value: Any) -> Any:
        """Return a value of a definition with all that depends on the budget filled in."""
        if isinstance(value, OfBudget):
            return value.of(self)
        if isinstance(value, dict):
            return {name: self.filled_in(entry) for name, entry in value.items()}
        return [self.filled_in(entry) for entry in value] if isinstance(value, list) else value

    def facts(self) -> dict[str, str]:
        return {
            "test": self.test.words,
            "early stop": "none, a cell that has solved its task goes on: the slow end of the schedule carries a solution to "
            "longer inputs",
        }

    def size_words(self, cells: Sequence[TaskCell]) -> str:
        runs = [cell.run for cell in cells]  # a panel or a series may change what the settings say
        steps, batch, width = (
            " or ".join(f"{number:,}" for number in sorted(set(numbers)))
            for numbers in (
                (run.training.steps for run in runs),
                (run.training.batch for run in runs),
                (run.model["d_model"] for run in runs),
            )
        )
        return f"{steps} steps of batch {batch}, d = {width}"


@dataclass(frozen=True)
class Score:
    title: str
    of: Callable[[Any], float]
    digits: int = 3  # after the point

    def show(self, value: float) -> str:
        return f"{value:.{self.digits}f}"


SCALED_ACCURACY = Score("scaled accuracy at the test lengths", lambda result: result.scores.scaled_accuracy)
HORIZON_SCORE = Score("horizon", lambda result: result.scores.horizon, digits=0)


@dataclass(frozen=True)
class Column:
    """A further figure of the report's table, over all seeds of a model; `meaning` is printed above the table."""

    title: str
    meaning: str
    show: Callable[[Sequence[Any]], str]  # makes the cell of a row from results of the experiment's kind


@dataclass(frozen=True)
class Experiment:
    """An experiment as data. With `every_rate` the learning rate is an axis and none is chosen; `table` writes the tables."""

    name: str
    title: str
    question: str  # one sentence, which the answer answers
    answer: Answer
    source: str  # the table or figure, and the version of the paper
    settings: Mapping[str, BudgetSettings]  # the settings of each budget
    family: str  # the first folder of its cells
    panels: tuple[Panel, ...]
    series: tuple[Series, ...]
    score: Score
    plot: Callable[[Sequence[Any], str], None]
    caption: str = ""  # how to read the plot, in one sentence
    columns: tuple[Column, ...] = ()
    chosen_rates: Mapping[Key, float] | None = None  # only these panels and series are trained, each at its rate
    paper: Mapping[str, Mapping[Key, str]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    paper_budget: BudgetSettings | None = None  # the budget with which the paper got its values
    differences: tuple[str, ...] = ()  # what differs from the paper at every budget
    setup: str = ""  # what its cells have in common, or were chosen by, and no table says
    every_rate: bool = False
    table: Callable[[Sequence[Any]], str] | None = None
    prepare: Callable[[Any, Path, Callable[[str], None]], None] | None = None  # makes in the folder what all cells need
    # results, cells, their folder, settings, say → results in place of the first: what more is measured of the networks
    study: Callable[[Sequence[Any], Sequence[Cell], Path, Any, Callable[[str], None]], Sequence[Any]] | None = None
    read_result: Callable[[dict[str, Any]], Any] = CellResult.from_json  # reads a result of the page's JSON, after the study

    def cells(self, settings: Any, seeds: Sequence[int]) -> list[Any]:
        return settings.cells(self, seeds)

    def found(self, results: Sequence[Any]) -> list[str]:
        """Return what these results show, a line each."""
        return [line for finding in self.findings for line in finding(results)]


def grid(
    family: str,
    panels: Sequence[Panel],
    series: Sequence[Series],
    settings: Settings,
    seeds: Sequence[int],
    chosen_rates: Mapping[Key, float] | None = None,
) -> list[TaskCell]:
    """Return a cell for every combination, all of the first seed first, so that a sweep cut short has whole seeds."""
    filled_in = [replace(entry, model=settings.filled_in(entry.model)) for entry in series]
    labelled = [replace(entry, label=entry.label.format(**entry.model)) for entry in filled_in]
    return [
        TaskCell(family, panel.label, entry.label, _run(panel, entry, settings, rate, seed), settings.test)
        for seed in seeds
        for panel in panels
        for entry in labelled
        for rate in settings.rates
        if chosen_rates is None or chosen_rates.get((panel.label, entry.label)) == rate
    ]


def _run(panel: Panel, series: Series, settings: Settings, rate: float, seed: int) -> RunConfig:
    final = 1.0 if settings.floor is None else min(1.0, settings.floor / rate)
    changes = settings.filled_in({**series.training, **panel.training})
    return RunConfig(
        task=panel.task,
        task_options={**panel.options, **series.task},
        model={"d_model": settings.d_model, **series.model, **settings.filled_in(panel.model)},
        training=replace(settings.training, **changes, learning_rate=rate, final_rate=final, seed=seed),
        validate_every=settings.validate_every,
        checkpoint_every=settings.checkpoint_every,
        telemetry_every=settings.telemetry_every,
        stop_when_solved=False,  # the slow end of the schedule is part of the method: it carries a solution to longer inputs
    )
