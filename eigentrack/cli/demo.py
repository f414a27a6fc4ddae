"""eigentrack demo."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from eigentrack.cli.console import Bars, err, out
from eigentrack.cli.options import AsJson, Overwrite, check_folder

if TYPE_CHECKING:
    from eigentrack.experiments.paper.parity_kept import Kept
    from eigentrack.experiments.paper.parity_twins import Outcome


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the weights and of the batches.")] = 0,
    folder: Annotated[Path, typer.Option("--out", help="Where the numbers, the plot and the models go.")] = Path("runs/demo"),
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train the \\[0,1] and \\[-1,1] twins of Mamba and DeltaNet on parity, then keep one of them right for ever, with a proof.

    Example: eigentrack demo --seed 1 --out runs/demo
    """
    check_folder("--out", folder)  # before torch is loaded
    from eigentrack.analysis.correction.correct import NotCorrected
    from eigentrack.experiments.paper import parity_kept, parity_twins
    from eigentrack.output_folder import claimed
    from eigentrack.training.config import check_seed

    check_seed(seed)
    cells, models = parity_twins.twins(seed), folder / parity_twins.MODELS
    output = parity_twins.output(seed)
    with claimed(folder, output, overwrite=overwrite), Bars(shown=not as_json) as bars:

        def report(number: int, step: int, loss: float) -> None:
            bars.show(cells[number].name, step + 1, cells[number].training.steps, f"loss {loss:.3f}")

        outcomes, twin = parity_twins.run_twins(cells, report, models), cells[-1]
        show = functools.partial(_show, bars)
        longest = parity_twins.TRAIN_LENGTHS[1]
        try:
            kept = parity_kept.keep(models / twin.folder, twin.task, longest, seed, folder / parity_twins.KEPT, show)
        except NotCorrected as reason:
            _print_parity_table(outcomes)
            err.print(f"the twin {twin.name} could not be corrected: {reason}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None
        numbers, picture = parity_twins.write_report(outcomes, kept, folder)
    if as_json:
        out.print_json(json.dumps(parity_twins.to_json(outcomes, kept)))
    else:
        _print_parity_table(outcomes)
        _print_kept(kept, folder / parity_twins.KEPT)
        out.print(f"\nplot: {picture}\nnumbers: {numbers}\nmodels: {models}", markup=False, highlight=False)
        look = f"eigentrack inspect {models / cells[-1].folder} --task parity"
        out.print(f"look inside one, and get it back with a proof: {look}", markup=False, highlight=False, soft_wrap=True)
    if not (parity_twins.claim_holds(outcomes) and kept.holds):
        err.print("the claim did not hold with this seed: a wide twin failed, or a narrow one did better than guess")
        raise typer.Exit(1)


def _show(bars: Bars, what: str, done: int, total: int) -> None:
    bars.show(what, done, total, f"{done:,}/{total:,}")


def _print_kept(kept: Kept, folder: Path) -> None:
    from eigentrack.experiments.paper.parity_kept import LONGEST

    lost = next((length for length, accuracy in kept.uncorrected if accuracy < 0.99), None)
    drift = "did not drift" if lost is None else f"drifted before {lost:,}"
    proof = kept.proof
    right = "every answer right" if kept.holds else "[red]not every answer right[/red]"
    out.print(
        f"\nDeltaNet \\[-1, 1], corrected every {proof.every} bits: {right} on {LONGEST:,} bits, where the twin that it was "
        f"made of {drift}\n[green]proved[/green] for every length: a bit leads at most {proof.error:.2g} from a code, and two "
        f"codes are {2 * proof.half_gap:.2g} apart; prove it again: eigentrack verify {folder}",
        highlight=False,
        soft_wrap=True,
    )


def _print_parity_table(outcomes: list[Outcome]) -> None:
    from eigentrack.experiments.paper.parity_twins import LONGEST, TEST_LENGTHS, TRAIN_LENGTHS

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
