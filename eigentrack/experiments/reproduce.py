"""Run an experiment from its name: its cells, in one sweep or with a pilot before it, and the report.

A pilot trains the first seed at every learning rate; the other seeds then run only at the rate that its validation chose.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import BUDGETS, Experiment
from eigentrack.experiments.language_models import LanguageSettings
from eigentrack.experiments.ledger import Ledger, SweepOutcome
from eigentrack.experiments.page import write_report
from eigentrack.experiments.provenance import provenance
from eigentrack.experiments.report import Report
from eigentrack.experiments.seeds import choose_rates

SYNTHETIC = ("figure1", "figure2", "figure3", "figure5", "figure6", "table3", "deltaproduct", "ablation", "stability", "mat")
LANGUAGE = ("figure4", "figure7", "figure8", "table4")
NAMES = (*SYNTHETIC, *LANGUAGE)
CELLS = "cells"  # the folder of all cells, which experiments in one folder share

Sweep = Callable[[Sequence[Cell], Path], SweepOutcome]


def named_experiment(name: str) -> Experiment:
    if name not in NAMES:
        raise ValueError(f"experiment {name!r} is not known; there are {', '.join(NAMES)}")
    return importlib.import_module(f"eigentrack.experiments.{name}").EXPERIMENT


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
    if budget not in BUDGETS:
        raise ValueError(f"budget {budget!r} is not known; there are {', '.join(BUDGETS)}")
    settings, start = experiment.settings[budget], time.perf_counter()
    if data:
        if not isinstance(settings, LanguageSettings):
            raise ValueError(f"{experiment.name} makes its own data: leave out --data")
        settings = settings.with_data(data)
    seeds = tuple(dict.fromkeys(seeds)) or settings.seeds
    cells = experiment.cells(settings, seeds)
    if experiment.prepare is not None:
        experiment.prepare(settings, folder, say)
    if settings.pilot:
        cells, outcome = _with_pilot(cells, seeds, folder / CELLS, sweep)
    else:
        outcome = sweep(cells, folder / CELLS)
    finished = len(outcome.results)
    if experiment.study is not None:
        outcome = replace(outcome, results=tuple(experiment.study(outcome.results, cells, folder / CELLS, settings, say)))
    seconds = time.perf_counter() - start
    report = Report(experiment, budget, settings, seeds, len(cells), finished, outcome, seconds, provenance())
    return report, write_report(report, folder)


def launching(launch: Callable[[Ledger], None], **ledger_options: Callable) -> Sweep:
    """A sweep that hands its ledger to a launcher. Ctrl-C ends it early, with all that was finished."""

    def sweep(cells: Sequence[Cell], folder: Path) -> SweepOutcome:
        ledger = Ledger(cells, folder, **ledger_options)
        try:
            launch(ledger)
        except KeyboardInterrupt:
            ledger.say("interrupted: the same command goes on from here")
        return ledger.outcome()

    return sweep


def _with_pilot(cells: list[Cell], seeds: Sequence[int], folder: Path, sweep: Sweep) -> tuple[list[Cell], SweepOutcome]:
    """The cells that the pilot has left, and what became of them."""
    pilot = [cell for cell in cells if cell.seed == seeds[0]]
    first = sweep(pilot, folder)
    rates = choose_rates(first.results, seeds[:1])
    others = [cell for cell in cells if cell.seed != seeds[0] and rates.get((cell.panel, cell.series)) == cell.rate]
    if first.unfinished:
        return pilot + others, SweepOutcome(first.results, first.failures, first.unfinished + len(others))
    # the pilot's cells again, which are finished, so that the progress counts them; but not those that failed
    second = sweep([cell for cell in pilot if cell.name not in first.failures] + others, folder)
    return pilot + others, SweepOutcome(second.results, first.failures | second.failures, second.unfinished)
