"""Cell: one training run of an experiment and its test. A pure description; its result lies in a folder of its own.

A run is that of a task, whose test is one of lengths, or that of a language model, with a test and a result of its own kind.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.experiments.language_result import LanguageResult
from eigentrack.experiments.language_test import LanguageTest
from eigentrack.experiments.length_test import LengthScores, LengthTest, first_tested
from eigentrack.experiments.provenance import NOT_RECORDED
from eigentrack.experiments.training_record import TrainingRecord
from eigentrack.files import write_json
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.training.run import RunConfig

RESULT_FILE = "result.json"


@dataclass(frozen=True)
class Cell:
    """`panel` is the task and `series` the model, as the report names them; experiments of one family share their cells."""

    family: str
    panel: str
    series: str
    run: RunConfig | LanguageRunConfig
    test: LengthTest | LanguageTest

    @property
    def rate(self) -> float:
        return self.run.training.learning_rate

    @property
    def seed(self) -> int:
        return self.run.training.seed

    @property
    def steps(self) -> int:
        return self.run.training.steps

    @property
    def name(self) -> str:
        """Its folder, below that of all cells."""
        labels = (re.sub(r"[^\w.+-]+", "_", label).strip("_") for label in (self.family, self.panel, self.series))
        return "/".join([*labels, f"rate-{self.rate:g}-seed-{self.seed}"])

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps({**dataclasses.asdict(self), "run": self.run.to_json()}))  # JSON knows no tuples


@dataclass(frozen=True)
class CellResult:
    """The validation accuracy alone may choose between cells; the scores are only looked at."""

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


def stored_result(cell: Cell, folder: Path) -> CellResult | LanguageResult | None:
    """The result in the cell's folder, if it is finished."""
    path = folder / RESULT_FILE
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    if stored["cell"] != cell.to_json():
        raise ValueError(f"{folder} holds the result of another configuration: name another --out folder")
    if isinstance(cell.run, LanguageRunConfig):
        return LanguageResult.from_json(stored["result"])
    result = CellResult.from_json(stored["result"])
    asked_from = first_tested(cell.run.build_task(), cell.run.training.lengths)
    return dataclasses.replace(result, scores=result.scores.counted_from(asked_from))


def store_result(cell: Cell, result: CellResult | LanguageResult, folder: Path) -> None:
    """Atomic: from now on the cell is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RESULT_FILE, {"cell": cell.to_json(), "result": result.to_json()})
