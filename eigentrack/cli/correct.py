"""eigentrack correct."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from eigentrack.cli.console import Bars, out
from eigentrack.cli.options import AsJson, Overwrite, check_folder, named_values

if TYPE_CHECKING:
    from eigentrack.analysis.correction.correct import Correction

MOST_LETTERS = 1e9
STEPS, WORDS = 600, 256  # the steps of the closing phase, and the words from which codes are found
KEPT, KEPT_LETTERS = "kept", 10_000  # the folder of `train --keep`, and the letters that it tests


def correct(
    run: Annotated[Path, typer.Argument(help="The folder of a training run, or of a saved model with --task.")],
    folder: Annotated[Path, typer.Option("--out", help="Where the corrected network and its proof go.")],
    task: Annotated[str | None, typer.Option(help="What a saved model should do; a run knows it itself.")] = None,
    task_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    every: Annotated[
        int | None, typer.Option(help="Tokens from one correction to the next.", show_default="the largest with a proof, to 64")
    ] = None,
    steps: Annotated[int, typer.Option(help="Of the closing phase.")] = STEPS,
    words: Annotated[int, typer.Option(help="From which codes are found.")] = WORDS,
    longest: Annotated[float, typer.Option(help="Letters of the longest word that is tested.")] = 1e5,
    seed: Annotated[int, typer.Option(help="Of the words.")] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Correct a trained network: codes that its memory is set to every C tokens, and a proof for every length.

    Example: eigentrack correct runs/parity --out kept
    """
    from eigentrack.training.config import check_seed

    check_seed(seed)
    for flag, value in {"--steps": steps, "--words": words, "--every": 1 if every is None else every}.items():
        if value < 1:
            raise ValueError(f"{flag} {value} must be at least 1")
    if not 1 <= longest <= MOST_LETTERS or longest != int(longest):
        raise ValueError(f"--longest {longest:g} must be a whole number of letters, from 1 to {MOST_LETTERS:g}")
    check_folder("RUN", run)
    check_folder("--out", folder)
    options = named_values("--task-option", task_option)
    wanted = {"steps": steps, "words": words, "every": every, "seed": seed}
    found = correct_into(folder, run, task, options, wanted, int(longest), overwrite=overwrite, shown=not as_json)
    if as_json:
        out.print_json(json.dumps(found.to_json()))
        return
    _print(found, folder)


def correct_run_in(run: Path, overwrite: bool) -> None:
    """Correct the training run in a folder, with the options of `correct` as by default, into `kept` beside its model."""
    folder, wanted = run / KEPT, {"steps": STEPS, "words": WORDS, "every": None, "seed": 0}
    _print(correct_into(folder, run, None, {}, wanted, KEPT_LETTERS, overwrite=overwrite, shown=True), folder)


def correct_into(
    folder: Path,
    run: Path,
    task: str | None,
    options: dict[str, Any],
    wanted: dict[str, Any],
    longest: int,
    *,
    overwrite: bool,
    shown: bool,
) -> Correction:
    """Correct a run and write the result to `folder`; exit with code 1 and the reason if there is no proof."""
    from eigentrack.analysis.correction.closing import ClosingConfig
    from eigentrack.analysis.correction.correct import CorrectionConfig, NotCorrected, correct_run
    from eigentrack.compiler.kept_network import ENTRIES
    from eigentrack.experiments.running.provenance import provenance
    from eigentrack.output_folder import Output, claimed

    closing = ClosingConfig(steps=wanted["steps"])
    config = CorrectionConfig(words=wanted["words"], closing=closing, every=wanted["every"], seed=wanted["seed"])
    settings = {"run": str(run.resolve()), "task": task, "options": options, **wanted, "longest": longest}
    with claimed(folder, Output("corrected network", ENTRIES, settings), overwrite=overwrite), Bars(shown=shown) as bars:

        def report(what: str, done: int, total: int) -> None:
            bars.show(what, done, total, f"{done:,}/{total:,}")

        try:
            return correct_run(run, task, options, config, longest, folder, provenance(), report)
        except NotCorrected as reason:
            refusal = str(reason)
    out.print(f"not corrected, and nothing written: {refusal}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def _print(found: Correction, folder: Path) -> None:
    from eigentrack.analysis.correction.report import rows

    table = Table(title=escape(f"{folder}: {found.task}"), show_header=False)
    for name, value in rows(found):
        table.add_row(escape(name), escape(value))
    out.print(table)
    out.print(f"network and proof: {folder}, for eigentrack verify", markup=False, highlight=False)
