"""eigentrack inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from eigentrack.cli.console import Bars, out
from eigentrack.cli.options import AsJson, Device, Overwrite, check_device, check_folder, named_values

MOST_LETTERS = 1e9  # hours
Task = Annotated[
    str | None, typer.Option(help="What a saved model should do: one of `eigentrack tasks`; a run knows it itself.")
]


def inspect(
    checkpoint: Annotated[Path, typer.Argument(help="The folder of a training run, a saved model or a compiled network.")],
    task: Task = None,
    task_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    longest: Annotated[float, typer.Option(help="The longest word, in letters: 1e7 works, in constant memory.")] = 1e5,
    seed: Annotated[int, typer.Option(help="Of the words and of the noise.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where the page and the numbers go; else into CHECKPOINT.")
    ] = None,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Look inside a network: spectra, horizon on adversarial words, robustness, and the automaton that its states are.

    Example: eigentrack inspect runs/s3 --longest 1e6
    """
    from eigentrack.analysis.inspection import inspect_network
    from eigentrack.analysis.loading import load_inspected
    from eigentrack.analysis.page import ENTRIES, EXACT, summary_rows, write_inspection
    from eigentrack.experiments.running.provenance import provenance
    from eigentrack.output_folder import Output, claimed
    from eigentrack.training.config import check_seed

    check_seed(seed)
    if not 1 <= longest <= MOST_LETTERS or longest != int(longest):
        raise ValueError(f"--longest {longest:g} must be a whole number of letters, from 1 to {MOST_LETTERS:g}")
    check_device(device)
    target = folder or checkpoint
    check_folder("CHECKPOINT", checkpoint)
    check_folder("--out", target)
    options = named_values("--task-option", task_option)
    loaded = load_inspected(checkpoint, task, options, device)
    settings = {"network": str(checkpoint.resolve()), "task": task, "options": options, "longest": longest, "seed": seed}
    output, beside = Output("inspection", ENTRIES, settings), target.resolve() == checkpoint.resolve()
    with claimed(target, output, guest=beside, overwrite=overwrite), Bars(shown=not as_json) as bars:

        def report(what: str, done: int, total: int) -> None:
            bars.show(what, done, total, f"{done}/{total}")

        found = inspect_network(loaded, longest=int(longest), seed=seed, progress=report)
        page, values = write_inspection(found, checkpoint.name, provenance(), target)
    if as_json:
        out.print_json(values.read_text())
        return
    table = Table(title=escape(f"{checkpoint}: {found.kind}"), show_header=False)
    for name, value in summary_rows(found):
        table.add_row(escape(name), escape(value))
    out.print(table)
    for note in found.notes:
        out.print(note, markup=False, highlight=False)
    out.print(f"page: {page}\nnumbers: {values}", markup=False, highlight=False)
    if found.snapped is not None:
        of_the_trained = found.snapped.agreement is not None and found.snapped.agreement.holds
        kind = "exact network" if of_the_trained else "exact network, which the trained one is not"
        out.print(f"{kind}: {target / EXACT}, for eigentrack verify and run", markup=False, highlight=False)
