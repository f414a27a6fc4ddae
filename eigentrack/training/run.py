"""A training run in a folder: run.json, metrics.jsonl, checkpoints/ and, at the end, model/. Killed at any moment, it resumes.

A run is determined by its RunConfig: on the CPU the resumed run ends with the same bits as the one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import torch

from eigentrack.models import ModelConfig, SequenceModel, save_model
from eigentrack.models.storage import write_atomically, write_json
from eigentrack.tasks import Task
from eigentrack.tasks.registry import make_task
from eigentrack.training.checkpoint import load_checkpoint, save_checkpoint
from eigentrack.training.config import TrainingConfig
from eigentrack.training.evaluation import accuracy_between
from eigentrack.training.loop import make_optimizer, train_step

RUN_FILE, METRICS_FILE, CHECKPOINTS, MODEL = "run.json", "metrics.jsonl", "checkpoints", "model"


@dataclass(frozen=True)
class RunConfig:
    """`model.vocab_size` follows from the task, so it is not asked for."""

    task: str
    model: dict[str, Any]
    training: TrainingConfig
    task_options: dict[str, Any] = field(default_factory=dict)
    validation_lengths: tuple[int, int] | None = None  # None: the training lengths
    validate_every: int = 100
    checkpoint_every: int = 100
    stop_when_solved: bool = True  # once two validations in a row are all right

    def __post_init__(self) -> None:
        self.build_model_config()
        for name in ("validate_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def build_task(self) -> Task:
        return make_task(self.task, self.task_options)

    def build_model_config(self) -> ModelConfig:
        return ModelConfig.from_json({**self.model, "vocab_size": self.build_task().model_vocab_size})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> RunConfig:
        _check_keys("run", values, cls)
        training = values.get("training")
        _check_keys("training", training, TrainingConfig)
        pairs: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in training.items()}
        rest: dict[str, Any] = dict(values)
        if rest.get("validation_lengths"):
            rest["validation_lengths"] = tuple(rest["validation_lengths"])
        return cls(**{**rest, "training": TrainingConfig(**pairs)})


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
    report: Callable[[int, dict[str, float]], None] | None = None,
    say: Callable[[str], None] = print,
) -> RunResult:
    """Trains until solved or out of steps; `report(step, metrics)` is called after every step."""
    task = config.build_task()
    torch.manual_seed(config.training.seed)
    model = SequenceModel(config.build_model_config()).to(device)
    optimizer = make_optimizer(model, config.training)
    task.sample(1, config.training.lengths, seed=0, step=0, device=device)  # lengths that the task cannot make fail here
    _open_folder(folder, config, resume)
    done, troubles = load_checkpoint(folder / CHECKPOINTS, model, optimizer) if resume else (0, [])
    for trouble in troubles:
        say(trouble)
    history = _metrics_up_to(folder, done)
    streak = _solved_streak(history)
    accuracy = next((line["validation_accuracy"] for line in reversed(history) if "validation_accuracy" in line), math.nan)
    with (folder / METRICS_FILE).open("a") as metrics_file:
        while done < config.training.steps and not (config.stop_when_solved and streak >= 2):
            loss = train_step(model, optimizer, task, config.training, done)
            metrics = {"loss": loss, "learning_rate": config.training.rate(done)}
            done += 1
            if done % config.validate_every == 0 or done == config.training.steps:
                accuracy = _validate(model, task, config)
                metrics["validation_accuracy"] = accuracy
                streak = streak + 1 if accuracy == 1.0 else 0
            _append(metrics_file, {"step": done, **metrics}, say)
            if done % config.checkpoint_every == 0 or done == config.training.steps:
                try:
                    save_checkpoint(folder / CHECKPOINTS, model, optimizer, done)
                except OSError as error:  # a full disk, say: the checkpoint before is still there
                    say(f"the checkpoint of step {done} could not be written ({error}); going on without it")
            if report is not None:
                report(done, metrics)
    save_model(model, folder / MODEL)
    return RunResult(done, accuracy == 1.0, accuracy)


def load_run(folder: Path) -> RunConfig:
    return load_run_file(folder / RUN_FILE)


def load_run_file(path: Path) -> RunConfig:
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: there is no training run") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    return RunConfig.from_json(values)


def _append(file: TextIO, metrics: dict[str, float], say: Callable[[str], None]) -> None:
    try:
        file.write(json.dumps(metrics) + "\n")
        file.flush()
    except OSError as error:
        say(f"the metrics of step {metrics['step']} could not be written ({error}); going on without them")


def _validate(model: SequenceModel, task: Task, config: RunConfig) -> float:
    lengths = config.validation_lengths or config.training.lengths
    return accuracy_between(model, task, lengths, sequences=512, seed=config.training.seed, purpose="validation").answers


def _open_folder(folder: Path, config: RunConfig, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")
    if (folder / RUN_FILE).exists():
        if not resume:
            raise ValueError(f"{folder} already holds a run: add --resume to go on with it, or name another folder")
        if _as_stored(load_run(folder)) != _as_stored(config):
            raise ValueError(f"{folder} holds a run with another configuration: name another folder")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RUN_FILE, config.to_json())


def _as_stored(config: RunConfig) -> Any:
    return json.loads(json.dumps(config.to_json()))  # JSON knows no tuples


def _metrics_up_to(folder: Path, step: int) -> list[dict[str, float]]:
    """The metrics of the steps that are done; what was written after the checkpoint is cut off, and written again."""
    path = folder / METRICS_FILE
    lines = path.read_text().splitlines() if path.exists() else []
    # by step, not by place: a full disk may have lost a line, or a part of one
    history = [metrics for line in lines if (metrics := _parsed(line)) is not None and metrics["step"] <= step]
    text = "".join(json.dumps(metrics) + "\n" for metrics in history)
    write_atomically(path, lambda temporary: Path(temporary).write_text(text))
    return history


def _parsed(line: str) -> dict[str, float] | None:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _solved_streak(history: list[dict[str, float]]) -> int:
    """How many of the last validations in a row were all right."""
    streak = 0
    for line in reversed([line for line in history if "validation_accuracy" in line]):
        if line["validation_accuracy"] != 1.0:
            break
        streak += 1
    return streak


def _check_keys(what: str, values: Any, kind: type) -> None:
    fields = {item.name: item for item in dataclasses.fields(kind)}
    if not isinstance(values, dict):
        raise ValueError(f"the {what} configuration must be an object, got {values!r}")
    if unknown := sorted(set(values) - set(fields)):
        raise ValueError(f"unknown {what} entry {unknown[0]!r}; known are {', '.join(fields)}")
    needed = [
        name
        for name, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING and name not in values
    ]
    if needed:
        raise ValueError(f"the {what} configuration needs {needed[0]!r}")
