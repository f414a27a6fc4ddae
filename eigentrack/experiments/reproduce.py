"""Run an experiment: its cells, in one sweep or with a pilot before it, what more is studied of them, and the report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigentrack.experiments.design.experiment import BUDGETS, Experiment
from eigentrack.experiments.design.rate_choice import PilotPlan, run_together
from eigentrack.experiments.reporting.page import write_report
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.running.ledger import Ledger, Sweep
from eigentrack.experiments.running.provenance import provenance

log = logging.getLogger(__name__)
CELLS = "cells"  # the folder of all cells, which experiments in one folder share


def budget_settings(experiment: Experiment, budget: str) -> Any:
    if budget not in BUDGETS:
        raise ValueError(f"budget {budget!r} is not known; there are {', '.join(BUDGETS)}")
    return experiment.settings[budget]


def plan_of(experiment: Experiment, settings: Any, seeds: Sequence[int] = ()) -> PilotPlan:
    """Return the plan of its cells; without seeds, those of the settings."""
    chosen = tuple(dict.fromkeys(seeds)) or settings.seeds
    return PilotPlan(experiment.cells(settings, chosen), chosen, settings.pilot)


def reproduce(
    experiment: Experiment,
    budget: str,
    folder: Path,
    sweep: Sweep,
    seeds: Sequence[int] = (),
    *,
    data: dict[str, str] | None = None,
    say: Callable[[str], None] = log.info,
) -> tuple[Report, list[Path]]:
    """Run the cells that are not finished, whichever experiment ran the others, and write the report.

    Without seeds, those of the budget. `data`: files or folders by label, in place of a language experiment's texts.
    """
    settings, start = budget_settings(experiment, budget), time.perf_counter()
    if data:
        if experiment.prepare is None:
            raise ValueError(f"{experiment.name} makes its own data: leave out --data")
        settings = settings.with_data(data)
    plan = plan_of(experiment, settings, seeds)
    if experiment.prepare is not None and Ledger(plan.cells, folder / CELLS).waiting:
        experiment.prepare(settings, folder, say)
    cells, outcome = plan.run(folder / CELLS, sweep)
    trained = outcome.results
    if experiment.study is not None:
        outcome = replace(outcome, results=tuple(experiment.study(outcome.results, cells, folder / CELLS, settings, say)))
    seconds = time.perf_counter() - start
    report = Report(experiment, budget, settings, plan.seeds, tuple(cells), trained, outcome, seconds, provenance())
    return report, write_report(report, folder)


def run_cells(experiments: Sequence[Experiment], budget: str, folder: Path, sweep: Sweep, seeds: Sequence[int] = ()) -> int:
    """Run the cells of several experiments together: `reproduce` then finds them finished.

    Return how many an interruption left over.
    """
    plans = [plan_of(experiment, budget_settings(experiment, budget), seeds) for experiment in experiments]
    return run_together(plans, folder / CELLS, sweep)
