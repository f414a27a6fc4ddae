"""The files of a report: a Markdown page with our values beside the paper's, all numbers as JSON, and the plot."""

from __future__ import annotations

from pathlib import Path

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.report import Report
from eigentrack.experiments.seeds import Key, spread
from eigentrack.models.storage import write_atomically, write_json

PATH_ONLY = "> **Smoke budget: tiny models and a few steps. The numbers prove the path only and say nothing about the models.**"


def write_report(report: Report, folder: Path) -> list[Path]:
    """NAME.md, NAME.json and, once there is a result, NAME.png: one folder can hold several experiments."""
    page, numbers, picture = (folder / f"{report.experiment.name}.{kind}" for kind in ("md", "json", "png"))
    write_json(numbers, report.to_json())
    text = markdown(report)
    write_atomically(page, lambda path: Path(path).write_text(text))
    if not report.shown:
        return [page, numbers]
    write_atomically(picture, lambda path: report.experiment.plot(report.shown, path))
    return [page, numbers, picture]


def markdown(report: Report) -> str:
    experiment = report.experiment
    lines = [PATH_ONLY, ""] if report.budget == "smoke" else []
    lines += [f"# {experiment.name}: {experiment.title}", "", f"Source: {experiment.source}.", "", *_facts(report), ""]
    if report.shown:
        lines += [f"![{experiment.title}]({experiment.name}.png)", ""]
    if report.shown and report.budget != "smoke" and experiment.findings is not None:
        lines += ["## What it shows", "", *(f"- {line}" for line in experiment.findings(report.shown)), ""]
    lines += [experiment.table(report.shown)] if experiment.table is not None else _tables(report) + _rates(report)
    if experiment.differences:
        lines += ["## Differences from the paper", "", *(f"- {line}" for line in experiment.differences), ""]
    if report.outcome.failures:
        lines += ["## Cells that failed", "", *(f"- `{name}`: {why}" for name, why in report.outcome.failures.items()), ""]
    return "\n".join(lines)


def _facts(report: Report) -> list[str]:
    where, results = report.provenance, report.outcome.results

    def of_the_cells(name: str) -> str:
        return "; ".join(sorted({getattr(result, name) for result in results})) or "none yet"

    total = sum(result.seconds for result in results)
    rates = ", ".join(f"{rate:g}" for rate in report.settings.rates)
    judges = f"seed {report.seeds[0]} alone, a pilot" if report.settings.pilot else "all seeds"
    how = "all shown" if report.experiment.every_rate else f"chosen by the median validation accuracy over {judges}"
    how = f"; {how}" if len(report.settings.rates) > 1 else ""
    so_far = "; the others can still change rates and medians"
    facts = {
        "command": f"`{where['command']}`",
        **{name: of_the_cells(name) for name in ("commit", "hardware", "versions")},
        "page": f"{where['date']}, at commit {where['commit']}, with {where['versions']}",
        **(settings := report.settings.facts()),
        "budget": f"{report.budget}: {settings['budget']}",
        "learning rates": rates + how,
        "seeds": ", ".join(map(str, report.seeds)),
        "cells": f"{report.finished} of {report.cells} finished" + (so_far if report.outcome.unfinished else ""),
        "time": f"{total:,.0f} s summed over all cells; {report.wall_seconds:,.0f} s for this call (only missing cells run)",
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]


def _tables(report: Report) -> list[str]:
    """For each panel: every seed at the chosen rate, best, median, deviation, the further columns, and the paper's values."""
    experiment, chosen = report.experiment, report.chosen
    head = ["model", "parameters", "state", "rate", *(f"seed {seed}" for seed in report.seeds), "best", "median", "deviation"]
    head += [*(column.title for column in experiment.columns), *experiment.paper]
    lines = [
        f"- score, by seed: {experiment.score.title}; 0 for a run that diverged",
        "- deviation: median absolute deviation",
        *(f"- {column.title}: {column.meaning}" for column in experiment.columns),
        "",
    ]
    for panel in dict.fromkeys(panel for panel, _ in chosen):
        lines += [f"## {panel}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        lines += [_row(report, key) for key in chosen if key[0] == panel]
        lines.append("")
    return lines


def _rates(report: Report) -> list[str]:
    """What the choice of each learning rate was made on: the validation accuracy, median over the seeds that choose."""
    if len(rates := sorted({result.rate for result in report.outcome.results})) < 2:
        return []
    lines = ["## Validation accuracy by learning rate", "", "At the training lengths; bold: the rate that was chosen.", ""]
    lines += ["| task | model | " + " | ".join(f"{rate:g}" for rate in rates) + " |", "|---" * (len(rates) + 2) + "|"]
    for key, chosen in report.chosen.items():
        entries = {rate: _validation(report, key, rate) for rate in rates}
        entries[chosen] = f"**{entries[chosen]}**"
        lines.append("| " + " | ".join([*key, *entries.values()]) + " |")
    return [*lines, ""]


def _validation(report: Report, key: Key, rate: float) -> str:
    results = [result for result in report.outcome.results if result.seed in report.choosing_seeds]
    runs = [result.validation_accuracy for result in results if (*result.key, result.rate) == (*key, rate)]
    return f"{spread(runs).median:.3f}" if runs else "–"


def _row(report: Report, key: Key) -> str:
    score, runs = report.experiment.score, {result.seed: result for result in report.shown if result.key == key}
    found = spread([score.of(run) for run in runs.values()])
    any_run = next(iter(runs.values()))
    seeds = [_seed_entry(report, runs.get(seed)) for seed in report.seeds]
    values = [key[1], f"{any_run.parameters:,}", f"{any_run.state_size:,}", f"{report.chosen[key]:g}", *seeds]
    values += [score.show(value) for value in (found.best, found.median, found.deviation)]
    values += [column.show(list(runs.values())) for column in report.experiment.columns]
    values += [column.get(key, "–") for column in report.experiment.paper.values()]
    return "| " + " | ".join(values) + " |"


def _seed_entry(report: Report, run: CellResult | None) -> str:
    if run is None:
        return "–"
    if run.diverged_at is not None:
        return f"diverged at step {run.diverged_at}"
    return report.experiment.score.show(report.experiment.score.of(run))
