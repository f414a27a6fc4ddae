"""The last section of a report's page: where its numbers come from, and what they may be compared with.

It has our budget beside the paper's, precision, choice of the rate, how far tests go, sizes of models, machine and commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.running.cell import Cell

PRECISIONS = {
    "float32": "float32",
    "tfloat32": "float32 (TF32 products on a GPU)",
    "bfloat16": "bfloat16 with float32 weights",
}
MATCHED = 0.05  # largest difference in parameters between models that count as equally large
NEXT_LINE = "<br>"  # within a field of a Markdown table


def page_facts(report: Report) -> dict[str, str]:
    """Return the facts by name, in the order of the page: "gathered" is when the numbers were put together for the page."""
    experiment, where, results = report.experiment, report.provenance, report.outcome.results

    def of_the_cells(name: str) -> str:
        return NEXT_LINE.join(sorted({getattr(result, name) for result in results})) or "none yet"

    so_far = "; the others can still change rates and medians"
    seconds = [result.seconds for result in results] or [0.0]
    each = (
        f"{min(seconds):,.0f} to {max(seconds):,.0f} s for a cell, several side by side, {sum(seconds):,.0f} s summed over all"
    )
    return {
        "command": f"`{where['command']}`",
        **{name: of_the_cells(name) for name in ("commit", "hardware", "versions")},
        "gathered": f"{where['date']}, at commit {where['commit']}, with {where['versions']}",
        **({"setup": experiment.setup} if experiment.setup else {}),
        **report.settings.facts(),
        "test": report.test_words,
        "budget": f"{report.budget}: {report.settings.size_words(report.planned)}, {_precision(report.planned)}",
        **_other_budget(report),
        "learning rates": _rates(report),
        "seeds": ", ".join(map(str, report.seeds)),
        "parameters": _parameters(report.trained),
        "cells": f"{report.finished} of {report.cells} finished" + (so_far if report.outcome.unfinished else ""),
        "wall time": f"{each}; {report.wall_seconds:,.0f} s for this call, which ran only those that were missing",
    }


def _other_budget(report: Report) -> dict[str, str]:
    """Return the budget of the paper, or, where no paper has done this, the largest of ours."""
    experiment = report.experiment
    other = experiment.paper_budget or experiment.settings["paper"]
    if other == report.settings:
        return {}
    rates = ("learning rate " if len(other.rates) == 1 else "learning rates ") + _listed(other.rates)
    seeds = "1 seed" if len(other.seeds) == 1 else f"{len(other.seeds)} seeds"
    words = f"{other.size_words(other.cells(experiment, other.seeds))}, {seeds}; {rates}"
    if experiment.paper_budget is None:
        return {"full budget": f"`--budget paper`, not run here: {words}"}
    return {"paper's budget": f"{words}; precision not named"}


def _precision(cells: Sequence[Cell]) -> str:
    return " or ".join(PRECISIONS[name] for name in sorted({cell.run.training.precision for cell in cells}))


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def _rates(report: Report) -> str:
    settings, rates = report.settings, _listed(report.settings.rates)
    if report.experiment.every_rate and len(settings.rates) > 1:
        return f"{rates}; all shown"
    if not settings.chooses_rates:
        return rates  # each model has its own
    if len(settings.rates) == 1:
        return f"{rates}: one rate for all, no pilot"
    runs = {(cell.panel, cell.series, cell.rate) for cell in report.planned}
    if len(runs) == len({(panel, series) for panel, series, _ in runs}):
        return f"{rates}: one for each task and model, chosen before"
    judges = f"seed {report.seeds[0]} alone, a pilot" if settings.pilot else "all seeds"
    ties = "of equal ones the rate that took fewer steps, then the one with the lower loss at the end"
    return f"{rates}; chosen by the median validation accuracy over {judges}; {ties}"


def _parameters(results: Sequence[Any]) -> str:
    """Say how many parameters the models have, compared within a task, as the vocabulary differs between tasks."""
    sizes: dict[str, list[int]] = {}
    for result in results:
        sizes.setdefault(result.panel, []).append(result.parameters)
    if not sizes:
        return "none yet"
    apart = max(max(of_panel) / min(of_panel) - 1 for of_panel in sizes.values())
    every = [size for of_panel in sizes.values() for size in of_panel]
    span = f"{min(every):,}" if min(every) == max(every) else f"from {min(every):,} to {max(every):,}"
    if apart == 0:
        return f"{span}; within a task all models have the same number"
    return f"{span}; within a task matched to {apart:.1%}" if apart <= MATCHED else f"{span}, not matched"
