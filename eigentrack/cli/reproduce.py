"""eigentrack reproduce."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from eigentrack.cli.console import Bars, err, out
from eigentrack.cli.interruption import GOES_ON, noted, raise_if_noted, saying
from eigentrack.cli.options import AsJson, Device, check_device
from eigentrack.experiments.catalogue import LANGUAGE, OPEN, SYNTHETIC, named_experiment

if TYPE_CHECKING:
    from eigentrack.experiments.reporting.report import Report
    from eigentrack.experiments.running.ledger import Ledger, SweepProgress

LAUNCHERS = ("local", "ray")


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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write beside other files in --out; finished cells are kept.")
    ] = False,
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
    from eigentrack.output_folder import Output, claimed

    experiments = [named_experiment(name) for name in dict.fromkeys(names)]
    if launcher not in LAUNCHERS:
        raise ValueError(f"--launcher {launcher} is not known; there are {', '.join(LAUNCHERS)}")
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
    at_a_time = jobs or _jobs(device, bool(language_models))

    names_of_files = [f"{each.name}.{kind}" for each in experiments for kind in ("md", "json", "png")]
    output, known = Output("reproduction", tuple(names_of_files), {}), (folder / CELLS).is_dir()
    with claimed(folder, output, known=known, overwrite=overwrite), saying(GOES_ON), Bars(shown=not as_json) as bars:
        if archive is not None and archive.exists():
            unpack_cells(archive, folder / CELLS)

        def show(state: SweepProgress) -> None:
            bars.show("", state.steps_done, state.steps, f"{state.finished} of {state.cells} cells")

        def launch(ledger: Ledger) -> None:
            if launcher == "ray":
                run_on_ray(ledger, jobs=at_a_time, device=device)
                return
            with noted() as is_stopped:

                def is_over() -> bool:
                    return is_stopped() or (minutes is not None and time.time() >= begun + 60 * minutes)

                run_locally(ledger, jobs=at_a_time, device=device, is_over=is_over)
            raise_if_noted(GOES_ON)

        sweep = launching(launch, report=show)
        if archive is not None:
            sweep = carried_in(archive, sweep, whole=any(each.study is not None for each in experiments))
        left = run_cells(experiments, budget, folder, sweep, chosen_seeds) if len(experiments) > 1 else 0
        ready = [] if left else experiments  # interrupted, the reports wait
        done = [run_experiment(each, budget, folder, sweep, chosen_seeds, data=texts) for each in ready]
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
