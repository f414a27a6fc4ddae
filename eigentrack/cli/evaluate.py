"""eigentrack evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from eigentrack.cli.console import out
from eigentrack.cli.options import AsJson, Device, check_device


def evaluate(
    folder: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    longest: Annotated[int, typer.Option(help="The longest sequence.")] = 2048,
    sequences: Annotated[int, typer.Option(help="How many sequences.")] = 256,
    seed: Annotated[int, typer.Option(help="Of the test sequences.")] = 1_000_000,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure the accuracy of a trained model by length, far beyond the lengths it was trained on.

    Example: eigentrack evaluate runs/s3 --longest 4096
    """
    from eigentrack.training.evaluation import evaluate_run

    check_device(device)
    rows = evaluate_run(folder, longest, sequences, seed, device)
    if as_json:
        out.print_json(json.dumps({"results": rows}))
        return
    table = Table(title=escape(f"{folder}: accuracy by length (scaled: 0 = guessing, 1 = always right)"))
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    out.print(table)
