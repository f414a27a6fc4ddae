"""Run a cell: train, test, store. A finished cell is never run again; an unfinished one goes on from its checkpoint."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from eigentrack.experiments.cell import Cell, CellResult, store_result, stored_result
from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.length_test import NO_SCORES, LengthTest, first_tested, length_scores, run_length_test
from eigentrack.experiments.provenance import origin
from eigentrack.experiments.training_record import read_record, thin_metrics
from eigentrack.files import write_json
from eigentrack.models import SequenceModel, load_model
from eigentrack.training import Diverged, accuracy_between
from eigentrack.training.driver import OutOfTime
from eigentrack.training.run import CHECKPOINTS, MODEL, RunConfig, RunResult, run_training

CLOCK_FILE = "seconds.json"


def run_cell(
    cell: Cell,
    folder: Path,
    device: str,
    report: Callable[[int], None] = lambda step: None,
    say: Callable[[str], None] = print,
    until: float | None = None,
) -> CellResult | LanguageResult:
    """`report(steps done)` is called while it trains; `say` takes what a user should read.

    `until`: seconds since the epoch, at which training stops with a checkpoint and OutOfTime; a language model's goes on.
    """
    result = stored_result(cell, folder)
    if result is None:
        result = _work(cell, until)(cell, folder, device, report, say)
        store_result(cell, result, folder)
    if (folder / CHECKPOINTS).exists():  # a finished cell keeps its model and a thin record, no more
        thin_metrics(folder)
        shutil.rmtree(folder / CHECKPOINTS)
        (folder / CLOCK_FILE).unlink(missing_ok=True)
    return result


def _work(cell: Cell, until: float | None) -> Callable[..., CellResult | LanguageResult]:
    if isinstance(cell.run, RunConfig):
        return partial(_train_and_test, until=until)
    # only now: torch's distributed tensors are a quarter of the time in which a process starts
    from eigentrack.experiments.language_cell_run import train_and_test_language_model

    return train_and_test_language_model


def state_size(model: SequenceModel) -> int:
    """Of one sequence before its first token: attention, whose cache grows, has 0."""
    return sum(part.numel() for block in model.blocks for part in block.mixer.initial_state(1).memory)  # type: ignore[operator, union-attr]


def _train_and_test(
    cell: Cell,
    folder: Path,
    device: str,
    report: Callable[[int], None],
    say: Callable[[str], None],
    until: float | None,
) -> CellResult:
    assert isinstance(cell.run, RunConfig)
    assert isinstance(cell.test, LengthTest)
    clock, run = _Clock(folder / CLOCK_FILE), cell.run

    def after_step(step: int, _: dict[str, float]) -> None:
        if step % run.checkpoint_every == 0:
            clock.store()
        report(step)

    task, trained = cell.run.build_task().as_tested(), cell.run.training.lengths
    validated, scores, diverged_at = 0.0, NO_SCORES, None
    try:
        outcome = run_training(
            cell.run, folder, resume=True, device=device, compiled=None, until=until, report=after_step, say=say
        )
    except OutOfTime:
        clock.store()
        raise
    except Diverged as error:
        outcome, diverged_at = RunResult(error.step, False, 0.0), error.step
        model = SequenceModel(cell.run.build_model_config())
    else:
        model = load_model(folder / MODEL, device)
        asked, count = cell.run.validation_lengths or trained, cell.test.sequences
        validated = accuracy_between(model, task, asked, sequences=count, seed=cell.seed, purpose="validation").answers
        curve = run_length_test(model, task, cell.test, trained, cell.seed)
        scores = length_scores(curve, cell.test, task.classes, first_tested(task, trained))
    return CellResult(
        panel=cell.panel,
        series=cell.series,
        rate=cell.rate,
        seed=cell.seed,
        trained_to=trained[1],
        steps=outcome.steps,
        solved=outcome.solved,
        diverged_at=diverged_at,
        validation_accuracy=validated,
        scores=scores,
        record=read_record(folder),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        state_size=state_size(model),
        seconds=round(clock.seconds(), 2),
        **origin(device),
    )


class _Clock:
    """Seconds over all the pieces in which a cell was run, stored with every checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path, self.start = path, time.perf_counter()
        self.before = json.loads(path.read_text()) if path.exists() else 0.0

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.start

    def store(self) -> None:
        write_json(self.path, self.seconds())
