"""TwinTraining: the twins of one page, a process each, side by side; one page trains at a time, the others wait in line.

A twin is a small run, step by step until it is told to stop, then its accuracy at lengths it never saw. The folder that it
leaves is a training run like any other: run.json and model/.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import torch

from eigentrack.explorer.session import Computation
from eigentrack.explorer.training_choice import TrainingChoice
from eigentrack.files import write_json
from eigentrack.models import SequenceModel, save_model
from eigentrack.processes import Line
from eigentrack.tasks import TrackingTask
from eigentrack.training.evaluation import length_curve
from eigentrack.training.loop import take_steps
from eigentrack.training.run import MODEL, RUN_FILE, RunConfig
from eigentrack.training.step import TrainingStep

SECONDS = 900.0  # how long a twin may take
REPORT_EVERY = 5  # steps
LONGEST = 512  # letters in the test
TESTED = 128  # words


@dataclass(frozen=True)
class StepNews:
    step: int
    loss: float
    accuracy: float


def train_twin(line: Line, config: RunConfig, folder: Path) -> tuple[float, ...]:
    """Train a twin in a worker, and return its accuracy at lengths 1..LONGEST."""
    task = config.build_task()
    if not isinstance(task, TrackingTask):
        raise ValueError(f"task {config.task!r} has no automaton: its accuracy by length cannot be streamed")
    torch.manual_seed(config.training.seed)
    model = SequenceModel(config.build_model_config())
    step = TrainingStep(model, task, config.training)
    for outcome in take_steps(step, 0, config.training.steps):
        assert outcome.accuracy is not None, "a tracking task always has one"
        done, is_stopped = outcome.number + 1, line.is_stopped
        if done % REPORT_EVERY == 0 or done == config.training.steps or is_stopped:
            line.report(StepNews(done, outcome.loss, outcome.accuracy))
        if is_stopped:
            break
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RUN_FILE, config.to_json())
    save_model(model, folder / MODEL)
    # the test words come from a seed that training does not use
    curve = length_curve(model, task, LONGEST, sequences=TESTED, seed=10**6 + config.training.seed)
    return tuple(curve.accuracy.tolist())


class TrainingQueue:
    """A queue of trainings: first come, first served."""

    def __init__(self) -> None:
        self._line: list[TwinTraining] = []
        self._lock = threading.Lock()

    def join(self, who: TwinTraining) -> None:
        with self._lock:
            self._line.append(who)

    def leave(self, who: TwinTraining) -> None:
        with self._lock:
            if who in self._line:
                self._line.remove(who)

    def ahead_of(self, who: TwinTraining) -> int:
        with self._lock:
            return self._line.index(who) if who in self._line else 0


@dataclass(frozen=True)
class TwinProgress:
    """The progress of a twin; `curve` is its accuracy at lengths 1, 2, … once it is trained, `trouble` why there is none."""

    eigenvalues: str
    steps: tuple[StepNews, ...] = ()
    curve: tuple[float, ...] = ()
    trouble: str = ""


class TwinTraining:
    def __init__(self, choice: TrainingChoice, runs: dict[str, RunConfig], home: Path, queue: TrainingQueue) -> None:
        """Prepare the training; `runs` has each twin by its range, as `choice.run` gives it."""
        self.choice, self.home = choice, home
        self._runs, self._queue = runs, queue
        self._workers: dict[str, Computation] = {}
        self._steps: dict[str, list[StepNews]] = {name: [] for name in runs}
        self._is_over = False
        queue.join(self)

    def folder(self, eigenvalues: str) -> Path:
        """Return the folder in which the twin lies once it is trained."""
        return self.home / f"eigenvalues {eigenvalues}"

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def ahead(self) -> int:
        """Trainings of other pages that come first."""
        return 0 if self._workers or self._is_over else self._queue.ahead_of(self)

    def poll(self) -> tuple[TwinProgress, ...]:
        """Start the training when it is its turn, and return how far each twin is."""
        if not self._workers and not self._is_over and self.ahead == 0:
            self._workers = {
                name: Computation(train_twin, run, self.folder(name), seconds=SECONDS) for name, run in self._runs.items()
            }
        for name, worker in self._workers.items():
            self._steps[name] += worker.poll()
        if self._workers and not any(worker.is_running for worker in self._workers.values()):
            self._finish()
        return tuple(self._progress(name) for name in self._runs)

    def stop(self) -> None:
        """Stop the twins after their current step; they are tested as they are."""
        if not self._workers:
            self._finish()
        for worker in self._workers.values():
            worker.stop()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()
        self._finish()

    def _finish(self) -> None:
        self._is_over = True
        self._queue.leave(self)

    def _progress(self, name: str) -> TwinProgress:
        steps, worker = tuple(self._steps[name]), self._workers.get(name)
        if worker is None or worker.is_running:
            return TwinProgress(name, steps)
        try:
            return TwinProgress(name, steps, worker.result())
        except ValueError as error:
            return TwinProgress(name, steps, trouble=str(error))
