"""A toy experiment: parity with two models at two rates, a few steps each; and work that dies, for the launchers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eigentrack.experiments.design.experiment import Experiment, Panel, Score, Series, Settings, grid
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.reporting.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.running.cell import Cell, IsOver, run_cell
from eigentrack.experiments.running.length_test import NO_SCORES, CurvePoint, LengthTest
from eigentrack.experiments.running.task_cell import CellResult, TaskCell
from eigentrack.experiments.running.training_record import NO_RECORD
from eigentrack.training import TrainingConfig

SETTINGS = Settings(
    d_model=8,
    heads=2,
    training=TrainingConfig(steps=12, batch=4, lengths=(3, 9), warmup=2),
    rates=(1e-2, 1e-3),
    floor=1e-6,
    seeds=(0, 1),
    test=LengthTest((10, 24), 16),
    validate_every=12,
    checkpoint_every=4,
)


PANELS = (Panel("parity", "parity"),)
DELTANET = {"mixer": "deltanet", "layers": 1, "mixer_options": {"heads": 2, "conv": 0}}
SERIES = tuple(Series(f"DeltaNet [{low}, 1]", {**DELTANET, "eigenvalues": [low, 1]}) for low in (0, -1))


def toy_cells(settings: Settings = SETTINGS, seeds: Sequence[int] = (0,)) -> list[TaskCell]:
    return grid("toy", PANELS, SERIES, settings, seeds)


EXPERIMENT = Experiment(
    name="toy",
    title="A toy",
    question="Does the toy work?",
    answer=lambda results: f"It has {len(results)} results.",
    source="nowhere",
    settings={"smoke": SETTINGS, "short": replace(SETTINGS, pilot=True), "paper": SETTINGS},
    family="toy",
    panels=PANELS,
    series=SERIES,
    columns=(HORIZON,),
    score=Score("scaled accuracy", lambda result: result.scores.scaled_accuracy),
    plot=plot_scaled_accuracy,
    caption="Curves.",
    paper={"paper": {("parity", "DeltaNet [0, 1]"): ".017 [.010]", ("parity", "DeltaNet [-1, 1]"): "1.000 [.999]"}},
)


def toy_result(
    series: str = "DeltaNet [-1, 1]", rate: float = 1e-2, seed: int = 0, validation: float = 0.5, score: float = 0.5
) -> CellResult:
    curve = (CurvePoint(1, 1.0, 1.0), CurvePoint(2, 0.5, 0.5))
    return CellResult(
        panel="parity",
        series=series,
        rate=rate,
        seed=seed,
        trained_to=9,
        steps=12,
        solved=False,
        diverged_at=None,
        validation_accuracy=validation,
        scores=replace(NO_SCORES, scaled_accuracy=score, longest=24, curve=curve),
        record=NO_RECORD,
        parameters=10,
        state_size=4,
        seconds=1.0,
        hardware="abacus",
    )


def never() -> bool:
    return False


def count(folder: Path, what: str) -> int:
    """How often this happened in the cell's folder, this time included; it survives the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{what}").open("a") as file:
        file.write("x")
    return len((folder / f".{what}").read_text())


def dies_once(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver = never
) -> CellResult:
    """Killed in the middle of its training the first time, as by a machine that is out of memory."""

    def killed_at_six(step: int) -> None:
        if step == 6 and count(folder, "deaths") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        report(step)

    return run_cell(cell, folder, device, killed_at_six, say)


def fails_at_seed_0(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver = never
) -> CellResult:
    if cell.seed == 0:
        count(folder, "tries")
        raise RuntimeError("no luck\nand more lines")
    return run_cell(cell, folder, device, report, say)


_broken_processes: set[int] = set()  # of one process, as each has its own


def breaks_its_process_once(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver = never
) -> CellResult:
    """As an illegal access to a GPU's memory does: whatever the same process tries afterwards fails as well."""
    if os.getpid() in _broken_processes or (cell.seed == 0 and count(folder, "tries") == 1):
        _broken_processes.add(os.getpid())
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return run_cell(cell, folder, device, report, say)


def refuses(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver = never
) -> CellResult:
    count(folder, "tries")
    raise ValueError("text.txt is not there")


def has_no_time(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver
) -> CellResult:
    """Its own, shorter: one step."""
    return run_cell(cell, folder, device, report, say, lambda: True)
