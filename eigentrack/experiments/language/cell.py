"""LanguageCell: a language model is trained, or taken from another cell that trained it the same way, and tested; its result.

OUT/corpora/train         the training text, prepared before any cell runs
OUT/language_models/...   the training runs, which all experiments in OUT share
OUT/cells/...             the results
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigentrack.experiments.language.evaluation import LanguageTest
from eigentrack.experiments.running.cell import Cell, IsOver
from eigentrack.experiments.running.provenance import NOT_RECORDED, origin
from eigentrack.files import write_json
from eigentrack.lm.config import LanguageRunConfig, load_language_run
from eigentrack.lm.corpus import Corpus
from eigentrack.lm.documents import TRAIN
from eigentrack.lm.language_model import load_language_model
from eigentrack.lm.perplexity import PositionPerplexity
from eigentrack.training import Diverged
from eigentrack.training.run import CHECKPOINTS, METRICS_FILE, RUN_FILE

RUNS_FOLDER, TRAINED_FILE = "language_models", "trained.json"
STRETCHES = 200  # the points of a learning curve


@dataclass(frozen=True)
class LanguageCell(Cell):
    run: LanguageRunConfig
    test: LanguageTest

    def read_result(self, values: dict[str, Any]) -> LanguageResult:
        return LanguageResult.from_json(values)

    def train_and_test(
        self, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver | None
    ) -> LanguageResult:
        place = Path(self.name).parts[1:]  # without the family, which names the test
        out = folder.parents[len(place) + 1]  # above the folder of all cells
        run, trained = replace(self.run, corpus=str(out / self.run.corpus)), out.joinpath(RUNS_FOLDER, *place)
        perplexities: dict[str, tuple[PerplexityPoint, ...]] = {}
        scores: dict[str, dict[str, Any]] = {}
        diverged_at, parameters, start = None, 0, time.perf_counter()
        try:
            _train(run, trained, device, report, say, is_over)
            start = time.perf_counter()
            language_model = load_language_model(trained, device)
            parameters = sum(parameter.numel() for parameter in language_model.model.parameters())
            for text in self.test.texts:
                perplexities[text.label] = _curve(self.test.perplexity(language_model, text))
            scores = self.test.scores(language_model, folder / "tasks", device, say)
        except Diverged as error:
            diverged_at = error.step
        return LanguageResult(
            panel=self.panel,
            series=self.series,
            rate=self.rate,
            seed=self.seed,
            trained_to=run.training.length,
            steps=run.training.steps if diverged_at is None else diverged_at,
            diverged_at=diverged_at,
            learning=read_learning(trained),
            perplexities=perplexities,
            scores=scores,
            parameters=parameters,
            seconds=round(training_seconds(trained) + time.perf_counter() - start, 2),
            **origin(device),
        )


def _train(
    run: LanguageRunConfig,
    folder: Path,
    device: str,
    report: Callable[[int], None],
    say: Callable[[str], None],
    is_over: IsOver | None,
) -> None:
    """Train the model, unless the run in the folder is finished; raise if that run is another one."""
    if (folder / TRAINED_FILE).exists():
        run = replace(run, corpus_fingerprint=Corpus.open(run.corpus, TRAIN).fingerprint)
        if load_language_run(folder / RUN_FILE) != run:
            raise ValueError(f"{folder} holds a run with another configuration or corpus: name another --out folder")
        return
    # only now: torch's distributed tensors are a quarter of the time in which a process starts
    from eigentrack.lm.train import run_language_training

    run_language_training(
        run, folder, resume=True, device=device, is_over=is_over, report=lambda step, _: report(step), say=say
    )
    write_json(folder / TRAINED_FILE, True)
    shutil.rmtree(folder / CHECKPOINTS)


def _curve(found: PositionPerplexity) -> tuple[PerplexityPoint, ...]:
    return tuple(PerplexityPoint(bucket.last, bucket.perplexity) for bucket in found.buckets)


@dataclass(frozen=True)
class LearningPoint:
    """A point of a learning curve, over a stretch of steps; `tokens` is how many had been seen at its end."""

    tokens: int
    loss: float  # mean
    gradient_norm: float  # highest, before clipping
    validation_loss: float | None  # the last one in the stretch


@dataclass(frozen=True)
class PerplexityPoint:
    """A point of a perplexity curve, over the positions after the previous point up to this one."""

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
    perplexities: dict[str, tuple[PerplexityPoint, ...]]  # one list for each text
    scores: dict[str, dict[str, Any]]  # lm-eval's scores by task, then by metric
    parameters: int
    seconds: float  # the seconds of training and test
    hardware: str
    commit: str = NOT_RECORDED
    versions: str = NOT_RECORDED

    @property
    def key(self) -> tuple[str, str]:
        return self.panel, self.series

    @property
    def last_loss(self) -> float:
        """The last loss on the validation split, or if there is none on the last stretch of training; NaN without any step."""
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
    """Return the seconds of training, over all the pieces in which the run was done."""
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
