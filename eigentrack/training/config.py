"""Configurations of training runs.

OptimizationConfig has what every training needs, TrainingConfig adds what a training on a task needs, and RunConfig has
everything that determines a run on a task; it can be read from JSON or YAML.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigentrack.layers.validation import require_positive
from eigentrack.models import ModelConfig
from eigentrack.models.migration import current_form
from eigentrack.tasks import Task
from eigentrack.tasks.curriculum import Curriculum
from eigentrack.tasks.registry import make_task, self_contained
from eigentrack.tasks.task import check_lengths
from eigentrack.training.config_file import check_keys, read_values

# float32: everything in float32. tfloat32: matrix products on a GPU, also those of the recurrence, round their float32 inputs
# to 10 bits of mantissa. bfloat16: projections run in bfloat16, while weights and their updates stay in float32
PRECISIONS = ("float32", "tfloat32", "bfloat16")
LARGEST_SEED = 2**63 - 1  # the largest that torch accepts
WARMUP = 20  # the default number of warm-up steps


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig:
    """The number of steps, the parameters of AdamW, and the schedule of the learning rate."""

    steps: int
    batch: int  # sequences per step
    learning_rate: float = 1e-3  # at its highest, after the warm-up
    warmup: int = WARMUP  # steps in which the learning rate rises linearly
    final_rate: float = 0.05  # the learning rate after the cosine decay, as a share of the highest
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0  # the largest norm of the gradient; larger gradients are scaled down
    seed: int = 0  # the seed of the initial weights and the batches
    precision: str = "float32"  # one of PRECISIONS

    def __post_init__(self) -> None:
        require_positive(steps=self.steps, batch=self.batch)
        check_pair("betas", self.betas)
        check_seed(self.seed)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r} is not known; there are {', '.join(PRECISIONS)}")
        self._check("learning_rate", lambda rate: rate > 0, "positive")
        self._check("warmup", lambda steps: 0 <= steps <= self.steps, f"between 0 and steps={self.steps}")
        self._check("final_rate", lambda share: 0 <= share <= 1, "between 0 and 1")
        self._check("weight_decay", lambda decay: decay >= 0, "at least 0")
        self._check("betas", lambda betas: all(0 <= beta < 1 for beta in betas), "at least 0 and below 1")
        self._check("clip", lambda norm: norm > 0, "positive")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: a linear warm-up, then a cosine decay to the share `final_rate`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        floor = self.final_rate
        return self.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))

    def _check(self, name: str, holds: Callable[[Any], bool], wanted: str) -> None:
        value = getattr(self, name)
        parts = value if isinstance(value, tuple) else (value,)
        if any(_is_number(part) and not math.isfinite(part) for part in parts):
            raise ValueError(f"{name}={value!r} must be finite")
        if not all(_is_number(part) for part in parts) or not holds(value):
            raise ValueError(f"{name}={value!r} must be {wanted}")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(OptimizationConfig):
    """The configuration of a training on a task.

    Args:
        steps: the number of training steps.
        batch: sequences per step.
        learning_rate: the highest learning rate, after the warm-up.
        warmup: steps in which the learning rate rises linearly.
        final_rate: the learning rate after the cosine decay, as a share of the highest.
        weight_decay: the weight decay of AdamW, on matrices only.
        betas: the two decay rates of AdamW's averages.
        clip: the largest norm of the gradient; larger gradients are scaled down.
        seed: the seed of the initial weights and the batches.
        precision: "float32", "tfloat32" or "bfloat16".
        lengths: the shortest and the longest training sequence.
        label_smoothing: the share of each target that is spread evenly over the whole vocabulary.
        curriculum: the order in which letters come into the training; None: all are drawn from the first step on.
    """

    lengths: tuple[int, int]
    label_smoothing: float = 0.0
    curriculum: Curriculum | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pair("lengths", self.lengths, whole=True)
        check_lengths(self.lengths)
        self._check("label_smoothing", lambda share: 0 <= share < 1, "at least 0 and below 1")
        if not isinstance(self.curriculum, Curriculum | None):
            raise ValueError(f"curriculum={self.curriculum!r} must be a Curriculum or None")


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a training run on a task."""

    task: str  # a name in `tasks.registry.TASKS`
    model: dict[str, Any]  # a ModelConfig in JSON, without vocab_size, which follows from the task
    training: TrainingConfig
    task_options: dict[str, Any] = field(default_factory=dict)
    validation_lengths: tuple[int, int] | None = None  # shortest and longest; None: the training lengths
    validate_every: int = 100  # steps
    checkpoint_every: int = 100  # steps
    telemetry_every: int = 100  # steps; 0: never
    stop_when_solved: bool = True  # whether to stop after two validations in a row with an accuracy of 1

    def __post_init__(self) -> None:
        for name, kind in (("model", dict), ("task_options", dict), ("stop_when_solved", bool)):
            if not isinstance(getattr(self, name), kind):
                wanted = "true or false" if kind is bool else "an object"
                raise ValueError(f"{name}={getattr(self, name)!r} must be {wanted}")
        object.__setattr__(self, "task_options", self_contained(self.task_options))
        object.__setattr__(self, "model", current_form(self.model))  # an older version may have written it
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
        values = dataclasses.asdict(self)
        if self.training.curriculum is None:  # a run without one is written as it was before there were any
            del values["training"]["curriculum"]
        return values

    @classmethod
    def from_json(cls, values: Any) -> RunConfig:
        check_keys("run", values, cls)
        training = values.get("training")
        check_keys("training", training, TrainingConfig)
        pairs: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in training.items()}
        if isinstance(pairs["steps"], int):  # the default warm-up is at most as long as the run
            pairs.setdefault("warmup", max(0, min(WARMUP, pairs["steps"])))
        pairs["curriculum"] = Curriculum.from_json(pairs.get("curriculum"))
        rest: dict[str, Any] = dict(values)
        if isinstance(rest.get("validation_lengths"), list):
            rest["validation_lengths"] = tuple(rest["validation_lengths"])
        return cls(**{**rest, "training": TrainingConfig(**pairs)})


def load_run_file(path: Path) -> RunConfig:
    """Return the configuration in a JSON or YAML file; errors name the file."""
    values = read_values(path)
    if isinstance(values, dict) and "corpus" in values:
        raise ValueError(f"{path} is the run of a language model: use `eigentrack lm` train, evaluate or generate")
    try:
        return RunConfig.from_json(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def check_seed(seed: Any) -> None:
    if not _is_whole(seed) or abs(seed) > LARGEST_SEED:
        raise ValueError(f"seed={seed!r} must be a whole number from {-LARGEST_SEED} to {LARGEST_SEED}")


def check_pair(name: str, pair: Any, *, whole: bool = False) -> None:
    is_right = _is_whole if whole else _is_number
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(is_right(value) for value in pair):
        raise ValueError(f"{name}={pair!r} must be two {'whole ' if whole else ''}numbers")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
