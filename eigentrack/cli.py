"""The command line: one thin command for each capability; parse, call, print.

Exit code 0: done; 1: done, but the claim did not hold; 2: bad input. torch is imported by the commands that need it.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from eigentrack.experiments.parity_twins import Outcome

app = typer.Typer(
    name="eigentrack",
    help="Linear RNNs that can track state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read, and nothing else.")]


def main() -> None:
    """Runs the command line; a bad value becomes one line, never a trace (set EIGENTRACK_TRACE=1 to see it)."""
    try:
        app()
    except (ValueError, OSError) as error:
        if os.environ.get("EIGENTRACK_TRACE"):
            raise
        err.print(f"[red]error:[/red] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if show:
        from eigentrack import __version__

        out.print(__version__, highlight=False)
        raise typer.Exit


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the weights and of the batches.")] = 0,
    folder: Annotated[Path, typer.Option("--out", help="Where the numbers and the plot go.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train the \\[0,1] and \\[-1,1] twins of Mamba and DeltaNet on parity; print the table, write the plot (Figure 1).

    Example: eigentrack demo --seed 1 --out runs/demo
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")
    from eigentrack.experiments import parity_twins

    cells = parity_twins.twins(seed)
    outcomes: list[Outcome] = []
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"), TimeRemainingColumn()
    with Progress(*columns, console=err, disable=as_json) as progress:
        bars = [progress.add_task(cell.name, total=cell.training.steps, start=False, loss="") for cell in cells]
        for bar, cell in zip(bars, cells, strict=True):
            progress.start_task(bar)

            def report(step: int, loss: float, bar: TaskID = bar) -> None:
                progress.update(bar, completed=step + 1, loss=f"loss {loss:.3f}")

            outcomes.append(parity_twins.run_twin(cell, report))
    numbers, picture = parity_twins.write_report(outcomes, folder)
    if as_json:
        out.print_json(json.dumps(parity_twins.to_json(outcomes)))
    else:
        _print_parity_table(outcomes)
        out.print(f"\nplot: {picture}\nnumbers: {numbers}", highlight=False)
    if not parity_twins.claim_holds(outcomes):
        err.print("the claim did not hold with this seed: a wide twin failed, or a narrow one did better than guess")
        raise typer.Exit(1)


def _print_parity_table(outcomes: list[Outcome]) -> None:
    from eigentrack.experiments.parity_twins import LONGEST, TEST_LENGTHS, TRAIN_LENGTHS

    table = Table(
        title="Parity: scaled accuracy, 0 = guessing, 1 = always right",
        caption="horizon: the length up to which at least 99 % of the answers are right",
    )
    table.add_column("layer")
    table.add_column("eigenvalues")
    table.add_column("{}–{} bits, trained".format(*TRAIN_LENGTHS), justify="right")
    table.add_column("{}–{} bits, unseen".format(*TEST_LENGTHS), justify="right")
    table.add_column("horizon", justify="right")
    table.add_column("seconds", justify="right")
    for outcome in outcomes:
        reach = f"≥ {LONGEST}" if outcome.horizon == LONGEST else str(outcome.horizon)
        table.add_row(
            outcome.twin.label,
            str(outcome.twin.model.eigenvalues).replace("[", "\\["),
            f"{outcome.at_training_lengths:.3f}",
            f"{outcome.at_test_lengths:.3f}",
            reach,
            f"{outcome.seconds:.0f}",
        )
    out.print(table)


@app.command()
def layers(as_json: AsJson = False) -> None:
    """List the layers, the backends they run on, and the options they take.

    Example: eigentrack layers --json
    """
    from eigentrack.layers import MIXERS, LinearMixer

    rows = [
        {
            "name": name,
            "equation": (inspect.getdoc(sys.modules[mixer.__module__]) or "").split("\n")[0],
            "takes_eigenvalues": issubclass(mixer, LinearMixer),
            "options": ", ".join(option for option in inspect.signature(mixer).parameters if option != "d_model"),
        }
        for name, mixer in MIXERS.items()
    ]
    if as_json:
        out.print_json(json.dumps(rows))
        return
    for row in rows:
        kind = "linear, takes eigenvalues" if row["takes_eigenvalues"] else "baseline"
        out.print(f"[bold]{row['name']}[/bold]  ({kind})", highlight=False)
        out.print(f"  {row['equation']}", markup=False, highlight=False)
        out.print(f"  options: {row['options']}\n", markup=False, highlight=False)
