"""The driver of every run in a folder, be it of a task or of a language model. Killed at any moment, a run resumes.

    run.json        what determines the run
    metrics.jsonl   one line for each step
    checkpoints/    the newest two
    tensorboard/    the metrics again, where they are asked for
    model/          the trained model, at the end

What differs between the kinds of runs is a TrainingRun; `drive` does the rest: it opens the folder, restores the newest
checkpoint, takes the steps, and writes metrics, checkpoints and the model.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eigentrack.files import clear_unfinished, only_process_in, write_json
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.loop import READ_EVERY, take_steps
from eigentrack.training.metrics_log import Metrics, MetricsLog, TensorBoard, require_tensorboard
from eigentrack.training.step import Outcome, Step
from eigentrack.training.telemetry import telemetry

RUN_FILE, METRICS_FILE, CHECKPOINTS, MODEL = "run.json", "metrics.jsonl", "checkpoints", "model"
EVENTS = "tensorboard"

Report = Callable[[int, Metrics], None]  # of the steps done and the metrics of the last one
Say = Callable[[str], None]


class RunConfiguration(Protocol):
    """What the configurations of all runs have; `…_every` counts steps, and 0 is never."""

    @property
    def checkpoint_every(self) -> int: ...

    @property
    def telemetry_every(self) -> int: ...

    def to_json(self) -> dict[str, Any]: ...


class Checkpoints(Protocol):
    """The checkpoints of one run. A checkpoint that cannot be written or read costs a line, not the run."""

    def load(self) -> int:
        """Restore the newest checkpoint that can be read and return how many steps it has seen, 0 without any."""

    def save(self, done: int) -> None: ...

    def finish(self) -> None:
        """Wait for a checkpoint that is still being written."""


class Processes(Protocol):
    """The processes that take a run together."""

    @property
    def leads(self) -> bool: ...

    def wait(self) -> None: ...


class OneProcess:
    """The processes of a run that one process takes alone."""

    leads = True  # the first process of a run writes metrics and the model

    def wait(self) -> None:
        """Wait until all processes are here."""


class TrainingRun(ABC):
    """What the driver asks of a kind of run. By default one process does all the work, and all steps are taken."""

    step: Step
    config: RunConfiguration
    validate_every: int
    validation: str  # the name of what `validate` measures among the metrics
    world: Processes = OneProcess()
    read_every = READ_EVERY  # steps on a GPU: reading waits until the device is done
    settings = "configuration"  # what a stored run may differ in, for an error message

    @abstractmethod
    def is_stored_in(self, path: Path) -> bool:
        """Whether the run file at `path` describes this run."""

    @abstractmethod
    def checkpoints(self, folder: Path, say: Say) -> Checkpoints: ...

    @abstractmethod
    def metrics(self, outcome: Outcome) -> Metrics: ...

    @abstractmethod
    def validate(self) -> float: ...

    @abstractmethod
    def save_model(self, folder: Path) -> None: ...

    def is_solved(self, validations: list[float]) -> bool:
        """Whether the run may end before its last step, after these validations."""
        return False


@dataclass(frozen=True)
class RunOutcome:
    steps: int  # done
    validations: list[float]  # of the whole run
    metrics: Metrics  # of the last step that this call has taken; none if nothing was left to do


class OutOfTime(Exception):
    """The training has stopped early, and its checkpoint is written."""


def drive(
    run: TrainingRun,
    folder: Path,
    *,
    resume: bool = False,
    graph: bool = True,
    tensorboard: bool = False,
    until: float | None = None,
    report: Report = lambda done, metrics: None,
    say: Say = print,
) -> RunOutcome:
    """Take the steps that are left, and save the model.

    `report(steps done, metrics)` is called for every step. `graph`: replay the step as a CUDA graph, where one can hold it.
    `tensorboard`: write events for it, too. `until`: seconds since the epoch, at which the run stops with a checkpoint and
    raises OutOfTime. `say` hears what a user should know, such as a checkpoint that cannot be read.
    """
    if tensorboard:
        require_tensorboard()
    steps, config, limit = run.step.config.steps, run.config, TimeLimit(until)

    def every(count: int) -> Callable[[int], bool]:
        return lambda done: count > 0 and (done % count == 0 or done == steps)

    validates, saves, looks = every(run.validate_every), every(config.checkpoint_every), every(config.telemetry_every)

    def pauses(done: int) -> bool:
        return limit.ends_at(done) or validates(done) or saves(done) or looks(done)

    with ExitStack() as open_files:
        open_files.enter_context(_opened(folder, run, resume))
        checkpoints = run.checkpoints(folder / CHECKPOINTS, say)
        done = checkpoints.load() if resume else 0
        log = events = None
        validations: list[float] = []
        if run.world.leads:
            log = open_files.enter_context(closing(MetricsLog(folder / METRICS_FILE, done, say)))
            validations = [line[run.validation] for line in log.history if run.validation in line]
            if tensorboard:
                events = open_files.enter_context(closing(TensorBoard(folder / EVENTS, log.history)))
        open_files.callback(checkpoints.finish)
        metrics: Metrics = {}
        step = CapturedStep(run.step) if graph and run.step.can_be_captured else run.step
        last = done if run.is_solved(validations) else steps
        for outcome in take_steps(run.step, done, last, run=step, pause=pauses, read_every=run.read_every):
            done = outcome.number + 1
            metrics = run.metrics(outcome)
            if looks(done):
                metrics["telemetry"] = telemetry(run.step, outcome)
            if validates(done):
                validations.append(run.validate())
                metrics[run.validation] = validations[-1]
            if log is not None:
                log.append({"step": done, **metrics})
            if events is not None:
                events.write({"step": done, **metrics})
            if saves(done) or limit.ended_at(done):
                checkpoints.save(done)
            if run.world.leads:
                report(done, metrics)
            if run.is_solved(validations):
                break
            if limit.ended_at(done) and done < steps:
                raise OutOfTime(f"stopped after {done} of {steps} steps")
        checkpoints.finish()
        run.save_model(folder / MODEL)
    return RunOutcome(done, validations, metrics)


@contextmanager
def _opened(folder: Path, run: TrainingRun, resume: bool) -> Iterator[None]:
    """Keep the folder for this run alone. All processes look into it before the first of them writes."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")
    with only_process_in(folder) if run.world.leads else nullcontext():
        if run.world.leads:
            clear_unfinished(folder)
        is_new = not (folder / RUN_FILE).exists()
        if not is_new:
            if not resume:
                raise ValueError(f"{folder} already holds a run: add --resume to go on with it, or name another folder")
            if not run.is_stored_in(folder / RUN_FILE):
                raise ValueError(f"{folder} holds a run with another {run.settings}: name another folder")
        run.world.wait()
        if run.world.leads and is_new:
            write_json(folder / RUN_FILE, run.config.to_json())
        run.world.wait()
        yield


class TimeLimit:
    """The moment at which a training stops: the first step that ends at or after `until` is the last.

    `until` is given in seconds since the epoch; None: never.
    """

    def __init__(self, until: float | None) -> None:
        self._until = until
        self._last: int | None = None

    def ends_at(self, done: int) -> bool:
        """Decide, right after a step, whether it is the last."""
        if self._last is None and self._until is not None and time.time() >= self._until:
            self._last = done
        return self._last == done

    def ended_at(self, done: int) -> bool:
        """Return what was decided: on a GPU steps are read some time after they were taken."""
        return self._last == done
