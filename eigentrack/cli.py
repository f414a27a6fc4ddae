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
from rich.markup import escape
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
        err.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
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
    folder.mkdir(parents=True, exist_ok=True)  # before the work, not after it
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
        out.print(f"\nplot: {picture}\nnumbers: {numbers}", markup=False, highlight=False)
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
    from eigentrack.options import accepted_options

    rows = [
        {
            "name": name,
            "equation": (inspect.getdoc(sys.modules[mixer.__module__]) or "").split("\n")[0],
            "takes_eigenvalues": issubclass(mixer, LinearMixer),
            "options": ", ".join(accepted_options(mixer, without=("d_model",))),
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


@app.command()
def tasks(as_json: AsJson = False) -> None:
    """List the tasks and the options they take.

    Example: eigentrack tasks --json
    """
    from eigentrack.automata import LANGUAGES
    from eigentrack.options import accepted_options
    from eigentrack.tasks.registry import TASKS, describe

    rows = [{"name": name, "asks": describe(name), "options": ", ".join(accepted_options(TASKS[name]))} for name in TASKS]
    if as_json:
        out.print_json(json.dumps({"tasks": rows, "languages": {name: what for name, (what, _) in LANGUAGES.items()}}))
        return
    for row in rows:
        out.print(f"[bold]{row['name']}[/bold]  {escape(row['asks'])}", highlight=False)
        out.print(f"  options: {row['options'] or 'none'}", markup=False, highlight=False)
    out.print("\n[bold]languages[/bold] (option name of language and language-state)", highlight=False)
    for name, (what, _) in LANGUAGES.items():
        out.print(f"  {name}: {what}", markup=False, highlight=False)


@app.command()
def train(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--out", help="The run's folder: metrics, checkpoints and the model.")],
    config: Annotated[Path | None, typer.Option(help="A run.json of another run, instead of the options below.")] = None,
    task: Annotated[str, typer.Option(help="One of `eigentrack tasks`.")] = "parity",
    task_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    layer: Annotated[str, typer.Option(help="One of `eigentrack layers`.")] = "deltanet",
    layer_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    eigenvalues: Annotated[str, typer.Option(help="The range, as low,high.")] = "-1,1",
    layers_count: Annotated[int, typer.Option("--layers", help="How many blocks.")] = 1,
    d_model: Annotated[int, typer.Option(help="Width of the model.")] = 32,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 1000,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = 128,
    lengths: Annotated[str, typer.Option(help="Shortest and longest training sequence.")] = "3,40",
    learning_rate: Annotated[float, typer.Option("--lr", help="Peak learning rate.")] = 1e-2,
    label_smoothing: Annotated[float, typer.Option(help="Of the targets.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the weights and of the batches.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Train any layer, in any eigenvalue range, on any task; stops when solved. Killed at any moment, it resumes.

    Example: eigentrack train --task group --task-option name=S3 --layer deltanet --eigenvalues -1,1 --out runs/s3
    """
    from eigentrack.spectrum import EigenRange
    from eigentrack.training.run import RUN_FILE, RunConfig, load_run_file, run_training

    _check_device(device)
    stored = config or (folder / RUN_FILE if resume and (folder / RUN_FILE).exists() else None)
    if stored is not None:
        _refuse_flags(context, stored, except_for=("folder", "config", "resume", "device"))
        run_config = load_run_file(stored)
    else:
        chosen = EigenRange.parse(eigenvalues)
        run_config = RunConfig.from_json(
            {
                "task": task,
                "task_options": _options("--task-option", task_option),
                "model": {
                    "d_model": d_model,
                    "layers": layers_count,
                    "mixer": layer,
                    "mixer_options": _options("--layer-option", layer_option),
                    "eigenvalues": [chosen.low, chosen.high],
                },
                "training": {
                    "steps": steps,
                    "batch": batch,
                    "lengths": _pair("--lengths", lengths),
                    "learning_rate": learning_rate,
                    "warmup": min(20, steps),
                    "label_smoothing": label_smoothing,
                    "seed": seed,
                },
            }
        )
    columns = BarColumn(), TextColumn("{task.completed}/{task.total}  {task.fields[said]}"), TimeRemainingColumn()
    with Progress(*columns, console=err) as progress:
        bar = progress.add_task("", total=run_config.training.steps, said="")
        latest: dict[str, float] = {}

        def report(step: int, metrics: dict[str, float]) -> None:
            latest.update(metrics)
            valid = f"  validation {latest['validation_accuracy']:.3f}" if "validation_accuracy" in latest else ""
            progress.update(bar, completed=step, said=f"loss {metrics['loss']:.4f}{valid}")

        def say(text: str) -> None:
            progress.console.print(text, markup=False, highlight=False)

        result = run_training(run_config, folder, resume=resume, device=device, report=report, say=say)
    verdict = "solved" if result.solved else "not solved"
    out.print(f"{verdict} after {result.steps} steps, validation accuracy {result.validation_accuracy:.4f}", highlight=False)
    out.print(f"model: {folder / 'model'}", markup=False, highlight=False)


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    longest: Annotated[int, typer.Option(help="The longest sequence.")] = 2048,
    sequences: Annotated[int, typer.Option(help="How many sequences.")] = 256,
    seed: Annotated[int, typer.Option(help="Of the test sequences.")] = 1_000_000,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Accuracy of a trained model by length, far beyond the lengths it was trained on.

    Example: eigentrack evaluate runs/s3 --longest 4096
    """
    from eigentrack.training.report import evaluate_run

    _check_device(device)
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


def _refuse_flags(context: typer.Context, stored: Path, except_for: tuple[str, ...]) -> None:
    """A flag beside a stored configuration would be ignored: better to say so."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in except_for and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{name} is given on the command line and in {stored}: leave it out, or edit the file")


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise ValueError(f"--device {device} is not to be had here; cpu always is") from None


def _options(flag: str, given: list[str] | None) -> dict[str, object]:
    """name=value pairs; a value is read as JSON where it can be, else as text."""
    options: dict[str, object] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{flag} {text!r} must be written name=value")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def _pair(flag: str, text: str) -> list[int]:
    parts = text.replace(",", " ").split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise ValueError(f"{flag} {text!r} must be two whole numbers, such as 3,40")
    return [int(part) for part in parts]
