"""eigentrack lm convert."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from eigentrack.cli.console import out
from eigentrack.cli.options import AsJson, Overwrite


def convert(
    source: Annotated[str, typer.Argument(help="A folder with config.json and weights, or a model's name on the hub.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    eigenvalues: Annotated[
        str | None, typer.Option(help="A wider range for a trained model, such as -1,1: the same function, ready to train on.")
    ] = None,
    to: Annotated[str, typer.Option(help="What to write: eigentrack, or the model_type of another project.")] = "eigentrack",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Convert Mamba, Mamba-2, OLMo-hybrid, DeltaNet, GatedDeltaNet and GatedDeltaProduct checkpoints to ours, and back.

    Example: eigentrack lm convert state-spaces/mamba-370m-hf -o mamba --eigenvalues=-1,1
    """
    from eigentrack.lm.conversion import convert as run
    from eigentrack.spectrum import parse_eigenvalues

    done = run(source, folder, None if eigenvalues is None else parse_eigenvalues(eigenvalues), to, overwrite=overwrite)
    if as_json:
        out.print_json(json.dumps(dataclasses.asdict(done) | {"eigenvalues": done.eigenvalues.to_json()}))
        return
    out.print(
        escape(
            f"{folder}: {done.target} from {done.source}, {done.parameters:,} parameters, eigenvalues in {done.eigenvalues}"
        ),
        highlight=False,
    )
    for check in done.comparisons:
        result = (
            f"not compared, as {check.skipped}" if check.skipped else f"{check.worst:.1e} (largest logit {check.largest:.2g})"
        )
        out.print(escape(f"worst logit difference, {check.of}: {result}"), highlight=False)
