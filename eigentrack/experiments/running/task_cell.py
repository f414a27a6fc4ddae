"""TaskCell: a model is trained on a task and tested at lengths; its result, and the network that it leaves behind."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from eigentrack.experiments.running.cell import CLOCK_FILE, Cell, IsOver
from eigentrack.experiments.running.length_test import (
    NO_SCORES,
    LengthScores,
    LengthTest,
    first_tested,
    length_scores,
    run_length_test,
)
from eigentrack.experiments.running.provenance import NOT_RECORDED, origin
from eigentrack.experiments.running.training_record import TrainingRecord, read_record
from eigentrack.files import write_json
from eigentrack.models import SequenceModel, load_model
from eigentrack.training import Diverged, accuracy_between
from eigentrack.training.driver import RunStopped
from eigentrack.training.run import MODEL, RunConfig, RunResult, run_training

REACH = 6  # times the training length: right so far, a model counts as having learned
FITTED = 0.99  # the share of right answers from which a model fits the training lengths
Studied = TypeVar("Studied", bound="CellResult")


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. The validation accuracy alone may choose between cells; the scores may only be reported."""

    panel: str
    series: str
    rate: float
    seed: int
    trained_to: int  # the longest training sequence
    steps: int
    solved: bool
    diverged_at: int | None  # the step
    validation_accuracy: float  # 0 for a run that diverged
    scores: LengthScores
    record: TrainingRecord
    parameters: int
    state_size: int  # numbers in the memories of all layers, without the windows of convolutions
    seconds: float
    hardware: str
    commit: str = NOT_RECORDED
    versions: str = NOT_RECORDED

    @property
    def key(self) -> tuple[str, str]:
        return self.panel, self.series

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "scores": self.scores.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CellResult:
        scores, record = LengthScores.from_json(values["scores"]), TrainingRecord.from_json(values["record"])
        return cls(**{**values, "scores": scores, "record": record})


def learned(runs: Sequence[CellResult]) -> bool:
    """Return whether at least one seed is right far beyond the training length."""
    return any(run.scores.horizon >= REACH * run.trained_to for run in runs)


@dataclass(frozen=True)
class TaskCell(Cell):
    run: RunConfig
    test: LengthTest

    def read_result(self, values: dict[str, Any]) -> CellResult:
        result = CellResult.from_json(values)
        asked_from = first_tested(self.run.build_task(), self.run.training.lengths)
        return dataclasses.replace(result, scores=result.scores.counted_from(asked_from))

    def train_and_test(
        self, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver | None
    ) -> CellResult:
        clock, run = _Clock(folder / CLOCK_FILE), self.run

        def after_step(step: int, _: dict[str, float]) -> None:
            if step % run.checkpoint_every == 0:
                clock.store()
            report(step)

        task, trained = run.build_task().as_tested(), run.training.lengths
        validated, scores, diverged_at = 0.0, NO_SCORES, None
        try:
            outcome = run_training(
                run, folder, resume=True, device=device, compiled=None, is_over=is_over, report=after_step, say=say
            )
        except RunStopped:
            clock.store()
            raise
        except Diverged as error:
            outcome, diverged_at = RunResult(error.step, False, 0.0), error.step
            model = SequenceModel(run.build_model_config())
        else:
            model = load_model(folder / MODEL, device)
            asked, count = run.validation_lengths or trained, self.test.sequences
            validated = accuracy_between(model, task, asked, sequences=count, seed=self.seed, purpose="validation").answers
            curve = run_length_test(model, task, self.test, trained, self.seed)
            scores = length_scores(curve, self.test, task.classes, first_tested(task, trained))
        return CellResult(
            panel=self.panel,
            series=self.series,
            rate=self.rate,
            seed=self.seed,
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


def state_size(model: SequenceModel) -> int:
    """Count the numbers that one sequence keeps before its first token: attention, whose cache grows, has 0."""
    return sum(part.numel() for block in model.blocks for part in block.mixer.initial_state(1).memory)  # type: ignore[operator, union-attr]


class _Clock:
    """Seconds over all the pieces in which a cell was run, stored with every checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path, self.start = path, time.perf_counter()
        self.before = json.loads(path.read_text()) if path.exists() else 0.0

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.start

    def store(self) -> None:
        write_json(self.path, self.seconds())


def kept_networks(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path
) -> Iterator[tuple[CellResult, TaskCell, Path | None]]:
    """Yield every result with its cell and the place of its network, which is None if an archive did not keep it."""
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    for result in results:
        cell = by_run[result.panel, result.series, result.rate, result.seed]
        assert isinstance(cell, TaskCell)
        network = folder / cell.name / MODEL
        yield result, cell, network if network.exists() else None


def with_more(kind: type[Studied], result: CellResult, **more: Any) -> Studied:
    """Return the result as one of a `kind` that has further fields."""
    return kind(**{field.name: getattr(result, field.name) for field in dataclasses.fields(CellResult)}, **more)
