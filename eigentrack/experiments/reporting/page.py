"""The files of a report: a Markdown page that opens with its answer, all numbers as JSON, and the plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigentrack.experiments.design.experiment import Column, Key
from eigentrack.experiments.design.rate_choice import spread
from eigentrack.experiments.reporting.columns import far_column
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.page_facts import page_facts
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.files import write_atomically, write_text

PATH_ONLY = "> **Smoke budget: tiny models and a few steps. The numbers prove the path only and say nothing about the models.**"


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.json and, once there is a result, NAME.png, and return their paths."""
    page, numbers, picture = (folder / f"{report.experiment.name}.{kind}" for kind in ("md", "json", "png"))
    as_json, text = numbers_text(report.to_json()), markdown(report)
    write_text(numbers, as_json)
    write_text(page, text)
    if not report.shown:
        return [page, numbers]
    write_atomically(picture, lambda path: report.experiment.plot(report.shown, path))
    return [page, numbers, picture]


def numbers_text(values: dict[str, Any]) -> str:
    """Return the JSON with one result per line: one number per line would double the length of the file."""
    head = json.dumps({name: value for name, value in values.items() if name != "results"}, indent=2)
    lines = ",\n".join(f"    {json.dumps(result, separators=(',', ':'))}" for result in values["results"])
    return f'{head[:-2]},\n  "results": [\n{lines}\n  ]\n}}\n'


def markdown(report: Report) -> str:
    """Return the page: question and answer, plot, findings, tables, differences, and last how it was measured."""
    experiment = report.experiment
    lines = [PATH_ONLY, ""] if report.budget == "smoke" else []
    lines += [f"# {experiment.name}: {experiment.title}", "", *_opening(report), ""]
    if report.shown:
        lines += [f"![{experiment.title}]({experiment.name}.png)", ""]
        lines += [f"*{experiment.caption}*", ""] if experiment.caption else []
    if report.shown and report.budget != "smoke" and (found := experiment.found(report.shown)):
        lines += ["## What it shows", "", *(f"- {line}" for line in found), ""]
    lines += ["## Tables", ""]
    lines += [experiment.table(report.shown)] if experiment.table is not None else _tables(report)
    lines += [] if experiment.every_rate else _rates(report)
    if experiment.differences:
        lines += ["## Differences from the paper", "", *(f"- {line}" for line in experiment.differences), ""]
    if report.outcome.failures:
        lines += ["## Cells that failed", "", *(f"- `{name}`: {why}" for name, why in report.outcome.failures.items()), ""]
    return "\n".join([*lines, "## How it was measured", "", f"Source: {experiment.source}.", "", *_facts(report), ""])


def _opening(report: Report) -> list[str]:
    """Return the question and the answer; at the smoke budget, which proves the path only, the question alone."""
    lines = [f"**{report.experiment.question}**"]
    if report.budget != "smoke" and (answer := answer_of(report)):
        lines += ["", answer]
    return lines


def answer_of(report: Report) -> str:
    """Return the answer that the results give; while cells are missing it says so."""
    answer = report.experiment.answer(report.shown) if report.shown else ""
    if answer and report.finished < report.cells:
        answer += f" Only {report.finished} of {report.cells} cells are finished: the others can still change this."
    return answer


def _facts(report: Report) -> list[str]:
    return markdown_table(("", ""), page_facts(report).items())


def _columns(report: Report) -> tuple[Column, ...]:
    columns, far = report.experiment.columns, report.far_test
    if far is None:
        return columns
    return (*columns, far_column(far, [panel for panel, is_streamed in report.streamed.items() if is_streamed]))


def _tables(report: Report) -> list[str]:
    """Return a table for each panel: every seed at the chosen rate, their summary, further columns, and the paper's values."""
    experiment, chosen, columns = report.experiment, report.chosen, _columns(report)
    head = ["model", "parameters", "state", "rate", *(f"seed {seed}" for seed in report.seeds), "best", "median", "deviation"]
    head += [*(column.title for column in columns), *experiment.paper]
    lines = [
        f"- seed 0, 1, …: {experiment.score.title}; 0 for a run that diverged",
        "- deviation: median absolute deviation of the seeds",
        *(f"- {column.title}: {column.meaning}" for column in columns),
        "",
    ]
    for panel in dict.fromkeys(panel for panel, _ in chosen):
        rows = (_row(report, key, columns) for key in chosen if key[0] == panel)
        lines += [f"### {panel}", "", *markdown_table(head, rows), ""]
    return lines


def _rates(report: Report) -> list[str]:
    """Return the table by which rates were chosen: the median validation accuracy over the seeds that choose."""
    if len(rates := sorted({result.rate for result in report.outcome.results})) < 2:
        return []
    lines = [
        "### Validation accuracy by learning rate",
        "",
        "Measured at the training lengths; the rate that was chosen is bold.",
        "",
    ]
    rows = []
    for key, chosen in report.chosen.items():
        entries = {rate: _validation(report, key, rate) for rate in rates}
        entries[chosen] = f"**{entries[chosen]}**"
        rows.append([*key, *entries.values()])
    return [*lines, *markdown_table(["task", "model", *(f"{rate:g}" for rate in rates)], rows), ""]


def _validation(report: Report, key: Key, rate: float) -> str:
    results = [result for result in report.outcome.results if result.seed in report.choosing_seeds]
    runs = [result.validation_accuracy for result in results if (*result.key, result.rate) == (*key, rate)]
    return f"{spread(runs).median:.3f}" if runs else "–"


def _row(report: Report, key: Key, columns: Sequence[Column]) -> list[str]:
    score, runs = report.experiment.score, {result.seed: result for result in report.shown if result.key == key}
    found = spread([score.of(run) for run in runs.values()])
    any_run = next(iter(runs.values()))
    seeds = [_seed_entry(report, runs.get(seed)) for seed in report.seeds]
    values = [key[1], f"{any_run.parameters:,}", f"{any_run.state_size:,}", f"{report.chosen[key]:g}", *seeds]
    values += [score.show(value) for value in (found.best, found.median, found.deviation)]
    values += [column.show(list(runs.values())) for column in columns]
    values += [column.get(key, "–") for column in report.experiment.paper.values()]
    return values


def _seed_entry(report: Report, run: CellResult | None) -> str:
    if run is None:
        return "–"
    if run.diverged_at is not None:
        return f"diverged at step {run.diverged_at}"
    return report.experiment.score.show(report.experiment.score.of(run))
