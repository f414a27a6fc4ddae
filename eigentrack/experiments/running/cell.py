"""Cell: one training run of an experiment and its test, which are run once; the result lies in a folder of its own.

What kind of a run it is, of a task (`task_cell.py`) or of a language model (`language/cell.py`), is the cell's class: it knows
how to train and test, and how its results are read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.experiments.running.training_record import thin_metrics
from eigentrack.files import CHECKSUM, write_json
from eigentrack.models.migration import current_form
from eigentrack.training.run import CHECKPOINTS

log = logging.getLogger(__name__)
IsOver = Callable[[], bool]
RESULT_FILE, CLOCK_FILE = "result.json", "seconds.json"


@dataclass(frozen=True)
class Cell(ABC):
    """A description only. `panel` is the task and `series` the model, as the report names them.

    Experiments of one family share their cells.
    """

    family: str
    panel: str
    series: str
    run: Any  # the configuration of its training, of the cell's kind
    test: Any

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
        """The folder of the cell, below that of all cells."""
        labels = (re.sub(r"[^\w.+-]+", "_", label).strip("_") for label in (self.family, self.panel, self.series))
        return "/".join([*labels, f"rate-{self.rate:g}-seed-{self.seed}"])

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps({**dataclasses.asdict(self), "run": self.run.to_json()}))  # JSON knows no tuples

    @abstractmethod
    def train_and_test(
        self, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None], is_over: IsOver | None
    ) -> Any:
        """Return the result; an unfinished training in the folder goes on from its checkpoint."""

    @abstractmethod
    def read_result(self, values: dict[str, Any]) -> Any:
        """Return the result that was stored with these values."""


def run_cell(
    cell: Cell,
    folder: Path,
    device: str,
    report: Callable[[int], None] = lambda step: None,
    say: Callable[[str], None] = log.info,
    is_over: IsOver | None = None,
) -> Any:
    """Return the cell's result, and run it for that if it is not finished.

    `report(steps done)` is called while it trains; `say` takes what a user should read.
    `is_over()` is asked after every step; once it is true, training stops with a checkpoint and RunStopped.
    """
    result = stored_result(cell, folder)
    if result is None:
        result = cell.train_and_test(folder, device, report, say, is_over)
        store_result(cell, result, folder)
    if (folder / CHECKPOINTS).exists():  # a finished cell keeps its model and a thin record, no more
        thin_metrics(folder)
        shutil.rmtree(folder / CHECKPOINTS)
        (folder / CLOCK_FILE).unlink(missing_ok=True)
    return result


def stored_result(cell: Cell, folder: Path) -> Any | None:
    """Return the result in the cell's folder, or None if it is not finished."""
    path = folder / RESULT_FILE
    if not path.exists():
        return None
    stored = _read_result(path)
    if migrated(stored["cell"]) != cell.to_json():
        raise ValueError(f"{folder} holds the result of another configuration: name another --out folder")
    return cell.read_result(stored["result"])


def _read_result(path: Path) -> dict[str, Any]:
    """Return what was stored; results of earlier versions have no checksum."""
    try:
        stored = json.loads(path.read_text())
        noted = stored.pop(CHECKSUM, None)
        if noted is None or noted == _checksum(stored):
            return stored
    except (ValueError, AttributeError):  # no JSON, or no object
        pass
    raise ValueError(f"{path} is damaged: delete it, and the cell runs again")


def _checksum(stored: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def migrated(described: dict[str, Any]) -> dict[str, Any]:
    """Return a stored cell's description as today's code writes it: options of its model may have been written elsewhere."""
    run = described["run"]
    return {**described, "run": {**run, "model": current_form(run["model"])}}


def store_result(cell: Cell, result: Any, folder: Path) -> None:
    """Write the result, atomically: from now on the cell is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {"cell": cell.to_json(), "result": result.to_json()}
    write_json(folder / RESULT_FILE, {**stored, CHECKSUM: _checksum(stored)})
