"""A training run on a task, in a folder.

A run is determined by its RunConfig: on the CPU the resumed run ends with the same bits as the one that was never stopped.
"""

from __future__ import annotations

import json
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

VALIDATED = 512  # sequences


@dataclass(frozen=True)
class RunResult:
    steps: int
    solved: bool  # the last validation was all right
    validation_accuracy: float


def run_training(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    graph: bool = True,
    compiled: bool | None = False,
    tensorboard: bool = False,
    until: float | None = None,
    report: Callable[[int, Metrics], None] = lambda done, metrics: None,
    say: Callable[[str], None] = print,
) -> RunResult:
    """Train until solved or out of steps; `report(steps done, metrics)` is called for every step.

    `until`: seconds since the epoch, at which it stops with a checkpoint and raises OutOfTime.

    `graph`: on a GPU the step is replayed as a CUDA graph. `compiled`: torch.compile fuses the passes through the model;
    None: where it pays.
    `tensorboard`: events for it in a folder of that name.
    """
    run = _TaskRun(config, device, compiled, say)
    outcome = drive(run, folder, resume=resume, graph=graph, tensorboard=tensorboard, until=until, report=report, say=say)
    accuracy = outcome.validations[-1] if outcome.validations else math.nan
    return RunResult(outcome.steps, accuracy == 1.0, accuracy)


def load_run(folder: Path) -> RunConfig:
    return load_run_file(folder / RUN_FILE)


class _TaskRun(TrainingRun):
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
            self.task.sample(1, lengths, seed=0, step=0, device=device)  # those that the task cannot make fail here

    def is_stored_in(self, path: Path) -> bool:
        return _as_stored(load_run_file(path)) == _as_stored(self.config)

    def checkpoints(self, folder: Path, say: Callable[[str], None]) -> FileCheckpoints:
        return FileCheckpoints(folder, self.model, self.step.optimizer, say)

    def is_solved(self, validations: list[float]) -> bool:
        return self.config.stop_when_solved and validations[-2:] == [1.0, 1.0]

    def metrics(self, outcome: Outcome) -> Metrics:
        return {
            "loss": outcome.loss,
            "accuracy": outcome.accuracy,
            "gradient_norm": outcome.gradient_norm,
            "learning_rate": self.config.training.rate(outcome.number),
        }

    def validate(self) -> float:
        tested, lengths, seed = self.task.as_tested(), self._validation_lengths, self.config.training.seed
        accuracy = accuracy_between(self.model, tested, lengths, sequences=VALIDATED, seed=seed, purpose="validation")
        return accuracy.answers

    def save_model(self, folder: Path) -> None:
        save_model(self.model, folder)


def _as_stored(config: RunConfig) -> Any:
    return json.loads(json.dumps(config.to_json()))  # JSON knows no tuples
