"""Training runs on tasks, each in a folder.

The RunConfig determines a run: on the CPU, a run that was stopped and resumed ends with the same bits as one without a stop.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eigentrack.models import SequenceModel, save_model
from eigentrack.training.checkpoint import FileCheckpoints
from eigentrack.training.compilation import looping_mixers, worth_compiling
from eigentrack.training.config import RunConfig as RunConfig
from eigentrack.training.config import load_run_file as load_run_file
from eigentrack.training.driver import CHECKPOINTS as CHECKPOINTS
from eigentrack.training.driver import METRICS_FILE as METRICS_FILE
from eigentrack.training.driver import MODEL as MODEL
from eigentrack.training.driver import RUN_FILE as RUN_FILE
from eigentrack.training.driver import TrainingRun, drive
from eigentrack.training.evaluation import accuracy_between
from eigentrack.training.metrics_log import Metrics
from eigentrack.training.step import Outcome, TrainingStep

log = logging.getLogger(__name__)
VALIDATED = 512  # the number of sequences in a validation


@dataclass(frozen=True)
class RunResult:
    """The result of a training run."""

    steps: int  # the number of steps done
    solved: bool  # whether the last validation had an accuracy of 1
    validation_accuracy: float  # the accuracy of the last validation; NaN if there was none
    stages: tuple[int, int] | None = None  # with a curriculum: how many of its stages began, and how many there are


def run_training(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    graph: bool = True,
    compiled: bool | None = False,
    tensorboard: bool = False,
    is_over: Callable[[], bool] | None = None,
    report: Callable[[int, Metrics], None] = lambda done, metrics: None,
    say: Callable[[str], None] = log.warning,
) -> RunResult:
    """Train a model on a task until the task is solved or all steps are done, save it, and return the result.

    Args:
        config: what determines the run.
        folder: the folder of the run.
        resume: whether to continue a run that the folder holds; otherwise such a folder is an error.
        overwrite: whether to delete a run that the folder holds, and to write beside other files in it.
        device: the device to train on.
        graph: whether to replay the step as a CUDA graph, on a GPU.
        compiled: whether to compile the passes through the model with torch.compile; None: if it makes the run shorter.
        tensorboard: whether to write events for TensorBoard.
        is_over: asked after every step; once it is true, the run writes a checkpoint and raises RunStopped. None: never.
        report: called with the number of steps done and the metrics after every step.
        say: called with messages for the user, such as that a checkpoint cannot be read.
    """
    run = _TaskRun(config, device, compiled, say)
    outcome = drive(
        run,
        folder,
        resume=resume,
        overwrite=overwrite,
        graph=graph,
        tensorboard=tensorboard,
        is_over=is_over,
        report=report,
        say=say,
    )
    accuracy = outcome.validations[-1] if outcome.validations else math.nan
    letters = run.step.letters
    stages = None if letters is None else (letters.stage + 1, letters.count)
    return RunResult(outcome.steps, accuracy == 1.0, accuracy, stages)


def load_run(folder: Path) -> RunConfig:
    """Return the configuration of the run in `folder`."""
    return load_run_file(folder / RUN_FILE)


class _TaskRun(TrainingRun):
    """A training run on a task."""

    config: RunConfig
    step: TrainingStep
    validation = "validation_accuracy"

    def __init__(self, config: RunConfig, device: str, compiled: bool | None, say: Callable[[str], None]) -> None:
        self.config, self.task, self.validate_every = config, config.build_task(), config.validate_every
        torch.manual_seed(config.training.seed)
        self.model = SequenceModel(config.build_model_config()).to(device)
        if compiled and (loops := looping_mixers(self.model)):
            say(f"torch.compile unrolls the loop over time of {', '.join(loops)}, for many minutes: better without --compile")
        fused = worth_compiling(self.model, config.training.steps) if compiled is None else compiled
        self.step = TrainingStep(self.model, self.task, config.training, compiled=fused)
        self._validation_lengths = config.validation_lengths or config.training.lengths
        for lengths in {config.training.lengths, self._validation_lengths}:
            self.task.sample(
                1, lengths, seed=0, step=0, device=device
            )  # raises here if the task cannot draw sequences of these lengths

    def is_stored_in(self, path: Path) -> bool:
        return _as_stored(load_run_file(path)) == _as_stored(self.config)

    def checkpoints(self, folder: Path, say: Callable[[str], None]) -> FileCheckpoints:
        return FileCheckpoints(folder, self.model, self.step.optimizer, self.step.letters, say)

    def is_solved(self, validations: list[float]) -> bool:
        return self.config.stop_when_solved and validations[-2:] == [1.0, 1.0]

    def metrics(self, outcome: Outcome) -> Metrics:
        letters = self.step.letters
        return {
            "loss": outcome.loss,
            "accuracy": outcome.accuracy,
            "gradient_norm": outcome.gradient_norm,
            "learning_rate": self.config.training.rate(outcome.number),
            **({} if letters is None else {"stage": letters.stage_at(outcome.number) + 1}),
        }

    def validate(self) -> float:
        tested, lengths, seed = self.task.as_tested(), self._validation_lengths, self.config.training.seed
        accuracy = accuracy_between(self.model, tested, lengths, sequences=VALIDATED, seed=seed, purpose="validation")
        return accuracy.answers

    def save_model(self, folder: Path) -> None:
        save_model(self.model, folder)


def _as_stored(config: RunConfig) -> Any:
    return json.loads(json.dumps(config.to_json()))  # JSON turns tuples into lists
