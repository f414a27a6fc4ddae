"""Write pages again from their JSON, and measure nothing again: `python -m eigentrack.experiments.rewrite results`.

A page is a function of its JSON. When the words of a page change, its numbers and its picture stay as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from eigentrack.experiments.catalogue import CATALOGUE, named_experiment
from eigentrack.experiments.reporting.page import markdown
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.reproduce import plan_of
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.ledger import SweepOutcome
from eigentrack.files import write_text
from eigentrack.models import SequenceModel


def stored_report(values: dict[str, Any]) -> Report:
    """Return the report that a page's JSON holds."""
    experiment = named_experiment(values["experiment"])
    settings = experiment.settings[values["budget"]]
    results = tuple(experiment.read_result(result) for result in values["results"])
    plan = plan_of(experiment, settings, values["seeds"])
    cells = [*plan.first, *plan.later(results)] if plan.pilot else plan.cells
    if len(cells) != values["cells"]:
        raise ValueError(
            f"{values['experiment']}.json has {values['cells']} cells, and its definition {len(cells)}: run `eigentrack "
            "reproduce` with the archive of its cells"
        )
    trained = results if hasattr(results[0], "parameters") else _sizes(cells)
    unfinished = values["cells"] - values["finished"] - len(values["failures"])
    return Report(
        experiment,
        values["budget"],
        settings,
        tuple(values["seeds"]),
        tuple(cells),
        trained,
        SweepOutcome(results, values["failures"], unfinished),
        values["wall_seconds"],
        values["provenance"],
    )


def _sizes(cells: Sequence[Cell]) -> tuple[Any, ...]:
    """Return the sizes of the networks of cells whose study has put other results in place of theirs."""
    with torch.device("meta"):  # sizes alone; no random number is drawn
        models = [SequenceModel(cell.run.build_model_config()) for cell in cells]
    return tuple(
        SimpleNamespace(panel=cell.panel, parameters=sum(weight.numel() for weight in model.parameters()))
        for cell, model in zip(cells, models, strict=True)
    )


def rewrite(folder: Path) -> list[Path]:
    """Write the page of every experiment whose JSON is in the folder, and return the pages."""
    pages = []
    for name in CATALOGUE:
        numbers = folder / f"{name}.json"
        if numbers.exists():
            pages.append(numbers.with_suffix(".md"))
            write_text(pages[-1], markdown(stored_report(json.loads(numbers.read_text()))))
    return pages


if __name__ == "__main__":
    for page in rewrite(Path(sys.argv[1] if len(sys.argv) > 1 else "results")):
        print(f"written: {page}")
