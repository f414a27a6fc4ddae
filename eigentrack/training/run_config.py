"""RunConfig: everything that determines a training run, in JSON or YAML as in Python."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigentrack.models import ModelConfig
from eigentrack.tasks import Task
from eigentrack.tasks.registry import make_task, self_contained
from eigentrack.tasks.task import check_lengths
from eigentrack.training.config import TrainingConfig
from eigentrack.training.config_file import check_keys, read_values
from eigentrack.training.optimization import WARMUP, check_pair


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
    telemetry_every: int = 100  # 0: never
    stop_when_solved: bool = True  # once two validations in a row are all right

    def __post_init__(self) -> None:
        for name, kind in (("model", dict), ("task_options", dict), ("stop_when_solved", bool)):
            if not isinstance(getattr(self, name), kind):
                wanted = "true or false" if kind is bool else "an object"
                raise ValueError(f"{name}={getattr(self, name)!r} must be {wanted}")
        object.__setattr__(self, "task_options", self_contained(self.task_options))
        self.build_model_config()
        for name, least in (("validate_every", 1), ("checkpoint_every", 1), ("telemetry_every", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r} must be at least {least}")
        if self.validation_lengths is not None:
            check_pair("validation_lengths", self.validation_lengths, whole=True)
            check_lengths(self.validation_lengths)

    def build_task(self) -> Task:
        return make_task(self.task, self.task_options)

    def build_model_config(self) -> ModelConfig:
        return ModelConfig.from_json({**self.model, "vocab_size": self.build_task().model_vocab_size})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> RunConfig:
        check_keys("run", values, cls)
        training = values.get("training")
        check_keys("training", training, TrainingConfig)
        pairs: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in training.items()}
        if isinstance(pairs["steps"], int):  # a short run warms up in its time
            pairs.setdefault("warmup", max(0, min(WARMUP, pairs["steps"])))
        rest: dict[str, Any] = dict(values)
        if isinstance(rest.get("validation_lengths"), list):
            rest["validation_lengths"] = tuple(rest["validation_lengths"])
        return cls(**{**rest, "training": TrainingConfig(**pairs)})


def load_run_file(path: Path) -> RunConfig:
    values = read_values(path)
    if isinstance(values, dict) and "corpus" in values:
        raise ValueError(f"{path} is the run of a language model: use `eigentrack lm` train, evaluate or generate")
    try:
        return RunConfig.from_json(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
