"""LanguageResult: what a language cell came to: the curve of its training, perplexities by position, benchmarks."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.experiments.provenance import NOT_RECORDED
from eigentrack.training.run import METRICS_FILE

STRETCHES = 200  # of a learning curve


@dataclass(frozen=True)
class LearningPoint:
    """Over a stretch of steps; `tokens` seen at its end."""

    tokens: int
    loss: float  # mean
    gradient_norm: float  # highest, before clipping
    validation_loss: float | None  # the last one in the stretch


@dataclass(frozen=True)
class PerplexityPoint:
    """At the positions since the point before, up to this one."""

    position: int
    perplexity: float


@dataclass(frozen=True)
class LanguageResult:
    panel: str
    series: str
    rate: float
    seed: int
    trained_to: int  # tokens of a training sequence
    steps: int
    diverged_at: int | None  # the step
    learning: tuple[LearningPoint, ...]
    perplexities: dict[str, tuple[PerplexityPoint, ...]]  # by text
    scores: dict[str, dict[str, Any]]  # by lm-eval's task, then by metric
    parameters: int
    seconds: float  # of training and test
    hardware: str
    commit: str = NOT_RECORDED
    versions: str = NOT_RECORDED

    @property
    def key(self) -> tuple[str, str]:
        return self.panel, self.series

    @property
    def last_loss(self) -> float:
        """On the validation split where there is one, else on the last stretch of training; NaN without any step."""
        validated = [point.validation_loss for point in self.learning if point.validation_loss is not None]
        return (validated or [math.nan, *(point.loss for point in self.learning)])[-1]

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LanguageResult:
        learning = tuple(LearningPoint(**point) for point in values["learning"])
        curves = {text: tuple(PerplexityPoint(**point) for point in curve) for text, curve in values["perplexities"].items()}
        return cls(**{**values, "learning": learning, "perplexities": curves})


def read_learning(run_folder: Path) -> tuple[LearningPoint, ...]:
    lines = [json.loads(line) for line in (run_folder / METRICS_FILE).read_text().splitlines()]
    stride = -(-len(lines) // STRETCHES) or 1
    return tuple(_point(lines[first : first + stride]) for first in range(0, len(lines), stride))


def training_seconds(run_folder: Path) -> float:
    """Over all the pieces in which it was run."""
    lines = [json.loads(line) for line in (run_folder / METRICS_FILE).read_text().splitlines()]
    tokens = lines[0]["tokens"] / lines[0]["step"] if lines else 0  # a step
    return sum(tokens / line["tokens_per_second"] for line in lines)


def _point(lines: list[dict[str, Any]]) -> LearningPoint:
    validated = [line["validation_loss"] for line in lines if "validation_loss" in line]
    return LearningPoint(
        lines[-1]["tokens"],
        statistics.mean(line["loss"] for line in lines),
        max(line["gradient_norm"] for line in lines),
        validated[-1] if validated else None,
    )
