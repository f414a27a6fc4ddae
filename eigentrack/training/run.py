"""A training run in a folder: run.json, metrics.jsonl, checkpoints/ and, at the end, model/. Killed at any moment, it resumes.

A run is determined by its RunConfig: on the CPU the resumed run ends with the same bits as the one that was never stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eigentrack.models import SequenceModel, save_model
from eigentrack.models.storage import clear_unfinished, write_json
from eigentrack.tasks import Task
from eigentrack.training.checkpoint import load_checkpoint, save_checkpoint
from eigentrack.training.compilation import looping_mixers, worth_compiling
from eigentrack.training.evaluation import accuracy_between
from eigentrack.training.folder_lock import only_process_in
from eigentrack.training.loop import captured_if_possible, take_steps
from eigentrack.training.metrics_log import Metrics, MetricsLog
from eigentrack.training.run_config import RunConfig as RunConfig
from eigentrack.training.run_config import load_run_file as load_run_file
from eigentrack.training.step import Outcome, TrainingStep
from eigentrack.training.telemetry import telemetry
from eigentrack.training.tensorboard import TensorBoard, require_tensorboard
from eigentrack.training.time_limit import OutOfTime, TimeLimit

RUN_FILE, METRICS_FILE, CHECKPOINTS, MODEL = "run.json", "metrics.jsonl", "checkpoints", "model"
EVENTS = "tensorboard"


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
    report: Callable[[int, Metrics], None] | None = None,
    say: Callable[[str], None] = print,
) -> RunResult:
    """Trains until solved or out of steps; `report(steps done, metrics)` is called for every step.

    `until`: seconds since the epoch, at which it stops with a checkpoint and raises OutOfTime.

    `graph`: on a GPU the step is replayed as a CUDA graph. `compiled`: torch.compile fuses the passes through the model;
    None: where it pays.
    `tensorboard`: events for it in a folder of that name.
    """
    task, steps = config.build_task(), config.training.steps
    torch.manual_seed(config.training.seed)
    model = SequenceModel(config.build_model_config()).to(device)
    if compiled and (loops := looping_mixers(model)):
        say(f"torch.compile unrolls the loop over time of {', '.join(loops)}, for many minutes: better without --compile")
    fused = worth_compiling(model, steps) if compiled is None else compiled
    step = TrainingStep(model, task, config.training, compiled=fused)
    for lengths in {config.training.lengths, config.validation_lengths or config.training.lengths}:
        task.sample(1, lengths, seed=0, step=0, device=device)  # those that the task cannot make fail here
    if tensorboard:
        require_tensorboard()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")

    with ExitStack() as open_files:
        open_files.enter_context(only_process_in(folder))
        _open_folder(folder, config, resume)
        done, troubles = load_checkpoint(folder / CHECKPOINTS, model, step.optimizer) if resume else (0, [])
        for trouble in troubles:
            say(trouble)
        log = open_files.enter_context(closing(MetricsLog(folder / METRICS_FILE, done, say)))
        events = open_files.enter_context(closing(TensorBoard(folder / EVENTS, log.history))) if tensorboard else None
        validations = [line["validation_accuracy"] for line in log.history if "validation_accuracy" in line]

        def is_solved() -> bool:
            return config.stop_when_solved and validations[-2:] == [1.0, 1.0]

        def every(count: int) -> Callable[[int], bool]:
            return lambda done: count > 0 and (done % count == 0 or done == steps)

        validates, saves, looks = every(config.validate_every), every(config.checkpoint_every), every(config.telemetry_every)

        limit = TimeLimit(until)

        def pauses(done: int) -> bool:
            return limit.ends_at(done) or validates(done) or saves(done) or looks(done)

        run = captured_if_possible(step) if graph else step
        for outcome in take_steps(step, done, done if is_solved() else steps, run=run, pause=pauses):
            done = outcome.number + 1
            metrics = _metrics(outcome, config)
            if looks(done):
                metrics["telemetry"] = telemetry(step, outcome)
            if validates(done):
                validations.append(_validate(model, task, config))
                metrics["validation_accuracy"] = validations[-1]
            log.append({"step": done, **metrics})
            if events is not None:
                events.write({"step": done, **metrics})
            if saves(done) or limit.ended_at(done):
                try:
                    save_checkpoint(folder / CHECKPOINTS, model, step.optimizer, done)
                except OSError as error:  # a full disk, say: the checkpoint before is still there
                    say(f"the checkpoint of step {done} could not be written ({error}); going on without it")
            if report is not None:
                report(done, metrics)
            if is_solved():
                break
            if limit.ended_at(done) and done < steps:
                raise OutOfTime(f"stopped after {done} of {steps} steps")
        save_model(model, folder / MODEL)
    accuracy = validations[-1] if validations else math.nan
    return RunResult(done, accuracy == 1.0, accuracy)


def load_run(folder: Path) -> RunConfig:
    return load_run_file(folder / RUN_FILE)


def _metrics(outcome: Outcome, config: RunConfig) -> Metrics:
    return {
        "loss": outcome.loss,
        "accuracy": outcome.accuracy,
        "gradient_norm": outcome.gradient_norm,
        "learning_rate": config.training.rate(outcome.number),
    }


def _validate(model: SequenceModel, task: Task, config: RunConfig) -> float:
    lengths = config.validation_lengths or config.training.lengths
    tested = task.as_tested()
    return accuracy_between(model, tested, lengths, sequences=512, seed=config.training.seed, purpose="validation").answers


def _open_folder(folder: Path, config: RunConfig, resume: bool) -> None:
    clear_unfinished(folder)
    if (folder / RUN_FILE).exists():
        if not resume:
            raise ValueError(f"{folder} already holds a run: add --resume to go on with it, remove it, or name another folder")
        if _as_stored(load_run(folder)) != _as_stored(config):
            raise ValueError(f"{folder} holds a run with another configuration: remove it, or name another folder")
        return
    write_json(folder / RUN_FILE, config.to_json())


def _as_stored(config: RunConfig) -> Any:
    return json.loads(json.dumps(config.to_json()))  # JSON knows no tuples
