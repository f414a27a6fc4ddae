"""Run an experiment from its name: its cells, in one sweep or with a pilot before it, and the report."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import BUDGETS, Experiment
from eigentrack.experiments.language_models import LanguageSettings
from eigentrack.experiments.ledger import Ledger, SweepOutcome, Unlock
from eigentrack.experiments.page import write_report
from eigentrack.experiments.plan import Plan, Sweep, run_together
from eigentrack.experiments.provenance import provenance
from eigentrack.experiments.report import Report

SYNTHETIC = (
    *("figure1", "figure2", "figure3", "figure5", "figure6", "table3", "deltaproduct"),
    *("parity", "longer", "arithmetic", "ablation", "stability", "mat"),
)
OPEN = ("hybrids", "tradeoff", "depth", "signed_gates", "ladder", "patience", "family")  # questions that the paper leaves open
LANGUAGE = ("figure4", "figure7", "figure8", "table4")
NAMES = (*SYNTHETIC, *OPEN, *LANGUAGE)
CELLS = "cells"  # the folder of all cells, which experiments in one folder share


def named_experiment(name: str) -> Experiment:
    if name not in NAMES:
        raise ValueError(f"experiment {name!r} is not known; there are {', '.join(NAMES)}")
    return importlib.import_module(f"eigentrack.experiments.{name}").EXPERIMENT


def budget_settings(experiment: Experiment, budget: str) -> Any:
    if budget not in BUDGETS:
        raise ValueError(f"budget {budget!r} is not known; there are {', '.join(BUDGETS)}")
    return experiment.settings[budget]


def plan_of(experiment: Experiment, settings: Any, seeds: Sequence[int] = ()) -> Plan:
    """Without seeds, those of the settings."""
    chosen = tuple(dict.fromkeys(seeds)) or settings.seeds
    return Plan(experiment.cells(settings, chosen), chosen, settings.pilot)


def reproduce(
    experiment: Experiment,
    budget: str,
    folder: Path,
    sweep: Sweep,
    seeds: Sequence[int] = (),
    *,
    data: dict[str, str] | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Report, list[Path]]:
    """Finished cells in the folder are not run again, whichever experiment ran them; without seeds, those of the budget.

    `data`: files or folders by label, in place of a language experiment's texts.
    """
    settings, start = budget_settings(experiment, budget), time.perf_counter()
    if data:
        if not isinstance(settings, LanguageSettings):
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
    """The cells of several experiments together: `reproduce` then finds them finished. How many an interruption left over."""
    plans = [plan_of(experiment, budget_settings(experiment, budget), seeds) for experiment in experiments]
    return run_together(plans, folder / CELLS, sweep)


def launching(launch: Callable[[Ledger], None], **ledger_options: Callable) -> Sweep:
    """A sweep that hands its ledger to a launcher. Ctrl-C ends it early, with all that was finished."""
    given_up: dict[str, str] = {}

    def sweep(cells: Sequence[Cell], folder: Path, unlock: Unlock = lambda cell, results, failures: ()) -> SweepOutcome:
        ledger = Ledger(cells, folder, given_up=given_up, unlock=unlock, **ledger_options)
        try:
            launch(ledger)
        except KeyboardInterrupt:
            ledger.say("interrupted: the same command goes on from here")
        given_up.update(ledger.failures)
        return ledger.outcome()

    return sweep
