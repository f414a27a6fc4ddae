"""What the head of a page says of budget, precision, rates and sizes; and the column of far lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eigentrack.experiments.catalogue import NAMES, named_experiment
from eigentrack.experiments.design.experiment import Experiment, Settings
from eigentrack.experiments.reporting.columns import far_column
from eigentrack.experiments.reporting.page import markdown
from eigentrack.experiments.reporting.page_facts import page_facts
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.ledger import SweepOutcome
from eigentrack.experiments.running.length_test import CurvePoint, LengthTest
from eigentrack.experiments.running.task_cell import CellResult
from tests.experiments.test_reproduce import FACTS
from tests.experiments.toy import EXPERIMENT, SETTINGS, toy_cells, toy_result

PAPER = replace(SETTINGS, d_model=128, training=replace(SETTINGS.training, steps=9000, batch=512), rates=(1e-4,), seeds=(0,))


def facts(
    results: Sequence[CellResult] = (),
    settings: Settings = SETTINGS,
    experiment: Experiment = EXPERIMENT,
    cells: Sequence[Cell] | None = None,
) -> dict[str, str]:
    planned = tuple(toy_cells(settings, settings.seeds) if cells is None else cells)
    outcome = SweepOutcome(tuple(results), {}, 0)
    return page_facts(Report(experiment, "short", settings, settings.seeds, planned, tuple(results), outcome, 1.0, FACTS))


def test_the_budget_is_that_of_the_cells_with_its_precision() -> None:
    assert facts()["budget"] == "short: 12 steps of batch 4, d = 8, float32"
    first, *others = toy_cells()
    training = replace(first.run.training, batch=2, precision="bfloat16")  # as a series may change it
    changed = replace(first, run=replace(first.run, training=training))
    words = facts(cells=[changed, *others])["budget"]
    assert words == "short: 12 steps of batch 2 or 4, d = 8, bfloat16 with float32 weights or float32"
    assert "goes on" in facts()["early stop"]


def test_the_papers_budget_stands_beside_ours() -> None:
    experiment = replace(EXPERIMENT, paper_budget=PAPER)
    words = "9,000 steps of batch 512, d = 128, 1 seed; learning rate 0.0001; precision not named"
    assert facts(experiment=experiment)["paper's budget"] == words
    assert "paper's budget" not in facts(settings=PAPER, experiment=experiment)


def test_without_a_paper_the_largest_of_our_budgets_is_named() -> None:
    found = facts(experiment=replace(EXPERIMENT, settings={"paper": PAPER}))
    assert found["full budget"].startswith("`--budget paper`, not run here: 9,000 steps of batch 512")
    assert not {"full budget", "paper's budget"} & set(facts())  # this one is it


@pytest.mark.parametrize("name", NAMES)
def test_whoever_quotes_a_paper_names_its_budget(name: str) -> None:
    experiment = named_experiment(name)
    assert bool(experiment.paper) == (experiment.paper_budget is not None)


def test_the_choice_of_the_rate_is_told_with_its_ties() -> None:
    ties = "of equal ones the rate that took fewer steps, then the one with the lower loss at the end"
    chosen = "0.01, 0.001; chosen by the median validation accuracy over"
    assert facts()["learning rates"] == f"{chosen} all seeds; {ties}"
    assert facts(settings=replace(SETTINGS, pilot=True))["learning rates"] == f"{chosen} seed 0 alone, a pilot; {ties}"
    assert facts(settings=PAPER)["learning rates"] == "0.0001: one rate for all, no pilot"
    assert facts(experiment=replace(EXPERIMENT, every_rate=True))["learning rates"] == "0.01, 0.001; all shown"
    given = [cell for cell in toy_cells() if cell.rate == (1e-2 if "-1" in cell.series else 1e-3)]
    assert facts(cells=given)["learning rates"] == "0.01, 0.001: one for each task and model, chosen before"


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"a": (100, 130), "b": (200, 200)}, "from 100 to 200, not matched"),
        ({"a": (100, 102), "b": (200, 201)}, "from 100 to 201; within a task matched to 2.0%"),
        ({"a": (100, 100), "b": (200, 200)}, "from 100 to 200; within a task all models have the same number"),
        ({"a": (1000, 1000)}, "1,000; within a task all models have the same number"),
        ({}, "none yet"),
    ],
)
def test_sizes_are_compared_within_a_task(sizes: dict[str, tuple[int, ...]], words: str) -> None:
    results = [replace(toy_result(), panel=panel, parameters=n) for panel, found in sizes.items() for n in found]
    assert facts(results)["parameters"] == words


def far_result(longest: int, accuracy: float = 0.7, **changes: object) -> CellResult:
    toy = toy_result()
    curve = (CurvePoint(longest, accuracy, 0.5),)
    return replace(toy, scores=replace(toy.scores, longest=longest, curve=curve), **changes)  # type: ignore[arg-type]


def test_the_far_end_of_a_test_or_why_it_stopped() -> None:
    column = far_column(LengthTest((40, 256), 1, far=100_000), {"parity"})
    assert column.title == "at 100,000"
    far, dead = far_result(100_000), far_result(256)
    assert column.show([far, far_result(100_000, 0.5), dead]) == "0.700, 0.500, stopped at 256 (dead)"
    assert column.show([dead, dead]) == "stopped at 256 (dead)"
    assert column.show([far_result(256, state_size=0)]) == "stopped at 256 (attention)"
    assert column.show([far_result(256, panel="arithmetic")]) == "tested to 256"
    assert column.show([far_result(0, diverged_at=3)]) == "–"


@pytest.mark.parametrize(
    ("task", "far", "shown"),
    [("parity", 0, False), ("parity", 24, False), ("parity", 25, True), ("modular-arithmetic", 25, False)],
)
def test_a_page_speaks_of_far_lengths_where_its_test_goes_there(task: str, far: int, shown: bool) -> None:
    settings, result = replace(SETTINGS, test=replace(SETTINGS.test, far=far)), far_result(24)
    cells = tuple(replace(cell, run=replace(cell.run, task=task)) for cell in toy_cells(settings))
    outcome = SweepOutcome((result,), {}, 0)
    text = markdown(Report(EXPERIMENT, "short", settings, (0,), cells, (result,), outcome, 1.0, FACTS))
    assert ("| at 25 |" in text) == ("stopped at 24 (dead)" in text) == ("on to 25, 256 sequences" in text) == shown
