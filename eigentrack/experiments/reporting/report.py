"""Report: what an experiment's cells came to. The learning rate of each model is chosen first, then its seeds are summed up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from eigentrack.experiments.design.experiment import BudgetSettings, Experiment, Key
from eigentrack.experiments.design.rate_choice import choose_rates, spread
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.ledger import SweepOutcome
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.running.task_cell import TaskCell
from eigentrack.tasks import TrackingTask


@dataclass(frozen=True)
class Report:
    experiment: Experiment
    budget: str
    settings: BudgetSettings
    seeds: tuple[int, ...]
    planned: tuple[Cell, ...]
    trained: tuple[Any, ...]  # results of the cells; a study may put others in their place in the outcome
    outcome: SweepOutcome
    wall_seconds: float  # the seconds of this call; cells that were finished before took their time then
    provenance: dict[str, str]

    @property
    def cells(self) -> int:
        return len(self.planned)

    @property
    def finished(self) -> int:
        return len(self.trained)

    @cached_property
    def streamed(self) -> dict[str, bool]:
        """Whether the task of each panel asks after every token, by panel."""
        runs = {cell.panel: cell.run for cell in self.planned if isinstance(cell, TaskCell)}
        return {panel: isinstance(run.build_task(), TrackingTask) for panel, run in runs.items()}

    @property
    def far_test(self) -> LengthTest | None:
        """The test, if it goes on to far lengths for any of the panels."""
        test = self.settings.test
        return test if isinstance(test, LengthTest) and test.goes_far and any(self.streamed.values()) else None

    @property
    def test_words(self) -> str:
        """A description of the test, with what is special about panels that are not tested at each length, or further."""
        words, test = [self.settings.facts()["test"]], self.settings.test
        if isinstance(test, LengthTest) and not all(self.streamed.values()) and test.lengths[0] < test.lengths[1]:
            words.append(test.stretch_words)
        return "; ".join([*words, *([self.far_test.far_words] if self.far_test else [])])

    @property
    def choosing_seeds(self) -> tuple[int, ...]:
        """The seeds that choose the rate: with a pilot the first alone, as only that one has run at all rates."""
        return self.seeds[:1] if self.settings.pilot else self.seeds

    @cached_property
    def chosen(self) -> dict[Key, float]:
        return choose_rates(self.outcome.results, self.choosing_seeds)

    @cached_property
    def shown(self) -> list[Any]:
        if self.experiment.every_rate:
            return list(self.outcome.results)
        return [result for result in self.outcome.results if self.chosen.get(result.key) == result.rate]

    @property
    def summary(self) -> list[dict[str, Any]]:
        """A row for each panel and series; none where the learning rate is an axis."""
        return [] if self.experiment.every_rate else [self._summary(key) for key in self.chosen]

    def _summary(self, key: Key) -> dict[str, Any]:
        experiment = self.experiment
        by_seed = {result.seed: experiment.score.of(result) for result in self.shown if result.key == key}
        return {
            "panel": key[0],
            "series": key[1],
            "score": experiment.score.title,
            "rate": self.chosen[key],
            "by_seed": by_seed,
            **asdict(spread(list(by_seed.values()))),
            "paper": {column: values[key] for column, values in experiment.paper.items() if key in values},
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "budget": self.budget,
            "provenance": self.provenance,
            "settings": asdict(self.settings),  # type: ignore[call-overload]
            "seeds": self.seeds,
            "cells": self.cells,
            "finished": self.finished,
            "failures": self.outcome.failures,
            "wall_seconds": round(self.wall_seconds, 1),
            "summary": self.summary,
            "results": [result.to_json() for result in self.outcome.results],
        }
