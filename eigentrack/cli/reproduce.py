"""eigentrack reproduce."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markdown import Markdown
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from eigentrack.cli.console import err, out
from eigentrack.cli.options import AsJson, Device, check_device
from eigentrack.experiments.catalogue import LANGUAGE, OPEN, SYNTHETIC, named_experiment

if TYPE_CHECKING:
    from eigentrack.experiments.reporting.report import Report
    from eigentrack.experiments.running.ledger import SweepProgress


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            help=f"{', '.join(SYNTHETIC)}; on open questions: {', '.join(OPEN)}; language models: {', '.join(LANGUAGE)}."
        ),
    ],
    budget: Annotated[
        str, typer.Option(help="smoke (CPU, a minute: proves the path), short (a GPU, minutes) or paper.")
    ] = "smoke",
    folder: Annotated[Path | None, typer.Option("--out", help="Cells and reports; runs/reproduce/BUDGET if not given.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Cells at a time on a device; one a core, or 4 a GPU (1 language model), if not given.")
    ] = None,
    launcher: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    device: Device = "cpu",
    seeds: Annotated[str | None, typer.Option(help="Such as 0,1,2, in place of the budget's.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="LABEL=PATH, for language models: train=PATH to train on, any other label to test on; repeat it."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many, with a checkpoint of every cell; the same command goes on.")
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            help="A file (.tar.gz) that carries the cells on: read first if it is there, written when the sweep ends."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a table or a figure of the paper, or an open question: numbers, a plot, and a page with ours beside the paper's.

    Stopped at any moment, the same command goes on; experiments in one folder share the cells they have in common, and several
    names share the device to the end.

    Example: eigentrack reproduce figure1 --budget smoke --jobs 2
    """
    begun = time.time()  # loading torch and unpacking an archive count, too
    from eigentrack.experiments.reproduce import CELLS, run_cells
    from eigentrack.experiments.reproduce import reproduce as run_experiment
    from eigentrack.experiments.running.cell_archive import carried_in, unpack_cells
    from eigentrack.experiments.running.ledger import launching
    from eigentrack.experiments.running.ray_launcher import run_on_ray
    from eigentrack.experiments.running.sweep import run_locally

    experiments = [named_experiment(name) for name in dict.fromkeys(names)]
    launchers = {"local": run_locally, "ray": run_on_ray}
    if launcher not in launchers:
        raise ValueError(f"--launcher {launcher} is not known; there are {', '.join(launchers)}")
    language_models = [experiment.name for experiment in experiments if experiment.prepare is not None]
    if language_models and launcher == "ray":
        raise ValueError(f"--launcher ray shares no disk, and the cells of {language_models[0]} share a corpus: leave it out")
    if archive is not None and language_models:
        raise ValueError(f"--archive carries no language models: leave it out for {language_models[0]}")
    if len(experiments) > 1 and (as_json or data or language_models):
        raise ValueError(f"{', '.join(names)} together: --json, --data and language models take one name alone")
    if minutes is not None and (minutes <= 0 or launcher == "ray"):
        raise ValueError(f"--minutes {minutes:g} must be above 0, and goes with --launcher local")
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs {jobs} must be at least 1")
    check_device(device)
    chosen_seeds, texts = _seeds(seeds), _texts(data or [])
    folder = Path("runs/reproduce") / budget if folder is None else folder
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")
    folder.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    if archive is not None and archive.exists():
        unpack_cells(archive, folder / CELLS)
    launch = partial(launchers[launcher], jobs=jobs or _jobs(device, bool(language_models)), device=device)
    if minutes is not None:
        launch = partial(launch, until=begun + 60 * minutes)

    columns = TextColumn("{task.fields[cells]}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err, disable=as_json) as progress:
        bar = progress.add_task("", total=None, cells="")

        def show(state: SweepProgress) -> None:
            cells = f"{state.finished} of {state.cells} cells"
            progress.update(bar, completed=state.steps_done, total=state.steps, cells=cells)

        def say(text: str) -> None:
            progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

        sweep = launching(launch, report=show, say=say)
        if archive is not None:
            sweep = carried_in(archive, sweep, whole=any(each.study is not None for each in experiments))
        left = run_cells(experiments, budget, folder, sweep, chosen_seeds) if len(experiments) > 1 else 0
        ready = [] if left else experiments  # interrupted, the reports wait
        done = [run_experiment(each, budget, folder, sweep, chosen_seeds, data=texts, say=say) for each in ready]
    failed = 0
    for report, files in done:
        if as_json:
            out.print_json(json.dumps(report.to_json()))
        else:
            _print(report, files)
        failed, left = failed + len(report.outcome.failures), left + report.outcome.unfinished
    if failed or left:
        err.print(f"not all cells are there: {failed} failed, {left} unfinished; the same command goes on", highlight=False)
        raise typer.Exit(1)


def _jobs(device: str, trains_language_models: bool) -> int:
    from eigentrack.processes import cores

    if not device.startswith("cuda"):
        return cores()
    return 1 if trains_language_models else 4


def _seeds(text: str | None) -> list[int]:
    parts = (text or "").replace(",", " ").split()
    if text is not None and not (parts and all(part.isdigit() for part in parts)):
        raise ValueError(f"--seeds {text!r} must be whole numbers, such as 0,1,2")
    return [int(part) for part in parts]


def _texts(given: list[str]) -> dict[str, str]:
    texts = dict(entry.partition("=")[::2] for entry in given)
    for label, path in texts.items():
        if not label or not path or not Path(path).exists():
            raise ValueError(f"--data {label}={path} must be LABEL=PATH of a file or folder, such as train=books/")
    return texts


def _print(report: Report, files: list[Path]) -> None:
    experiment = report.experiment
    if report.budget == "smoke":
        out.print("smoke budget: the numbers prove the path only", highlight=False)
    if experiment.table is not None:
        out.print(Markdown(experiment.table(report.shown)))
    else:
        columns = [*experiment.paper][:1]  # the page has all of them
        table = Table(title=f"{experiment.title}\n{experiment.score.title}")
        table.add_column("task")
        table.add_column("model", no_wrap=True)
        for column in ("best", "median", "deviation", *columns):
            table.add_column(escape(column), justify="right")
        for row in report.summary:
            ours = (experiment.score.show(row[name]) for name in ("best", "median", "deviation"))
            theirs = (row["paper"].get(column, "–") for column in columns)
            table.add_row(*map(escape, (row["panel"], row["series"], *ours, *theirs)))
        out.print(table)
    out.print("\n".join(str(path) for path in files), markup=False, highlight=False, soft_wrap=True)
