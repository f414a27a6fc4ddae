"""RunConfig: everything that determines a training run, in JSON or YAML as in Python."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from eigentrack.models import ModelConfig
from eigentrack.tasks import Task
from eigentrack.tasks.registry import make_task, self_contained
from eigentrack.training.config import TrainingConfig


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


def load_run_file(path: Path) -> RunConfig:
    """From YAML if the file's name ends so, else from JSON."""
    try:
        text = path.read_text()
        values = yaml.load(text, _Loader) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: there is no training run") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
    try:
        return RunConfig.from_json(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 as the number that it is; YAML 1.1, which PyYAML follows, asks for 1.0e-3."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+"), list("-+0123456789"))


def _check_keys(what: str, values: Any, kind: type) -> None:
    fields = {item.name: item for item in dataclasses.fields(kind)}
    if not isinstance(values, dict):
        raise ValueError(f"the {what} configuration must be an object, got {values!r}")
    if unknown := sorted(str(name) for name in set(values) - set(fields)):
        raise ValueError(f"unknown {what} entry {unknown[0]!r}; known are {', '.join(fields)}")
    needed = [
        name
        for name, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING and name not in values
    ]
    if needed:
        raise ValueError(f"the {what} configuration needs {needed[0]!r}")
