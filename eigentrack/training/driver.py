"""The driver of all training runs, on tasks and on text. A run lives in a folder, and can resume when it was killed.

    run.json        the configuration of the run
    metrics.jsonl   one line per step
    checkpoints/    the two newest checkpoints
    tensorboard/    the metrics for TensorBoard, if requested
    model/          the trained model, at the end

Each kind of run is a subclass of TrainingRun. `drive` does what all kinds share: it opens the folder, restores the newest
checkpoint, takes the steps, and writes metrics, checkpoints and the model.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eigentrack.files import write_json
from eigentrack.output_folder import Output, claimed
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.loop import READ_EVERY, take_steps
from eigentrack.training.metrics_log import Metrics, MetricsLog, TensorBoard, require_tensorboard
from eigentrack.training.step import Outcome, Step
from eigentrack.training.telemetry import telemetry

RUN_FILE, METRICS_FILE, CHECKPOINTS, MODEL = "run.json", "metrics.jsonl", "checkpoints", "model"
EVENTS = "tensorboard"
RUN = Output("training run", (RUN_FILE, CHECKPOINTS, METRICS_FILE, EVENTS, MODEL))

log = logging.getLogger(__name__)
Report = Callable[[int, Metrics], None]  # takes the number of steps done and the metrics of the last step
Say = Callable[[str], None]  # takes a message for the user


class RunConfiguration(Protocol):
    """The part of a run's configuration that the driver reads; `…_every` is a number of steps, 0 means never."""

    @property
    def checkpoint_every(self) -> int: ...

    @property
    def telemetry_every(self) -> int: ...

    def to_json(self) -> dict[str, Any]: ...


class Checkpoints(Protocol):
    """The checkpoints of one run; a checkpoint that cannot be written or read gives a message and does not end the run."""

    def load(self) -> int:
        """Restore the newest checkpoint that can be read and return its number of steps, or 0 if there is none."""

    def save(self, done: int) -> None:
        """Write the checkpoint after `done` steps."""
        ...

    def finish(self) -> None:
        """Wait for a checkpoint that is still being written."""


class Processes(Protocol):
    """The processes that share a run."""

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes metrics and the model."""
        ...

    def wait(self) -> None:
        """Wait until all processes have called this."""
        ...

    def any(self, here: bool) -> bool:
        """Return whether `here` is true in any of the processes, all of which call this."""
        ...


class OneProcess:
    """The single process of a run that is not distributed."""

    leads = True

    def wait(self) -> None:
        """Do nothing: there are no other processes to wait for."""

    def any(self, here: bool) -> bool:
        return here


class TrainingRun(ABC):
    """The base class of the kinds of runs. By default a run has one process and takes all of its steps."""

    step: Step
    config: RunConfiguration
    validate_every: int
    validation: str  # the name in the metrics of what `validate` returns
    world: Processes = OneProcess()
    read_every = READ_EVERY  # on a GPU, outcomes are read every so many steps, as reading waits for the device
    settings = "configuration"  # what differs between two runs, for an error message

    @abstractmethod
    def is_stored_in(self, path: Path) -> bool:
        """Return whether the run file at `path` describes this run."""

    @abstractmethod
    def checkpoints(self, folder: Path, say: Say) -> Checkpoints:
        """Return the checkpoints of this run in `folder`; `say` takes messages about them."""
        ...

    @abstractmethod
    def metrics(self, outcome: Outcome) -> Metrics:
        """Return the metrics of a step."""
        ...

    @abstractmethod
    def validate(self) -> float:
        """Return the validation score of the model as it is now."""
        ...

    @abstractmethod
    def save_model(self, folder: Path) -> None:
        """Write the trained model to `folder`."""
        ...

    def is_solved(self, validations: list[float]) -> bool:
        """Return whether the run may end early, given all validations so far."""
        return False


@dataclass(frozen=True)
class RunOutcome:
    """The result of a run."""

    steps: int  # the number of steps done
    validations: list[float]  # all validations of the run, also those before it was resumed
    metrics: Metrics  # metrics of the last step of this call; empty if no step was left


class RunStopped(Exception):
    """The error that ends a run that was told to stop early, after its checkpoint was written."""


def drive(
    run: TrainingRun,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    graph: bool = True,
    tensorboard: bool = False,
    is_over: Callable[[], bool] | None = None,
    report: Report = lambda done, metrics: None,
    say: Say = log.warning,
) -> RunOutcome:
    """Take the remaining steps of a run, save the model, and return the outcome.

    Args:
        run: the run.
        folder: the folder of the run.
        resume: whether to continue a run that the folder holds; otherwise such a folder is an error.
        overwrite: whether to delete a run that the folder holds, and to write beside other files in it.
        graph: whether to replay the step as a CUDA graph, if it can be captured.
        tensorboard: whether to write events for TensorBoard.
        is_over: asked after every step; once it is true, the run writes a checkpoint and raises RunStopped. None: never.
        report: called with the number of steps done and the metrics after every step.
        say: called with messages for the user, such as that a checkpoint cannot be read.
    """
    if tensorboard:
        require_tensorboard()
    steps, config, ending = run.step.config.steps, run.config, Ending(is_over, run.world)

    def every(count: int) -> Callable[[int], bool]:
        return lambda done: count > 0 and (done % count == 0 or done == steps)

    validates, saves, looks = every(run.validate_every), every(config.checkpoint_every), every(config.telemetry_every)

    def pauses(done: int) -> bool:
        return ending.comes_at(done) or validates(done) or saves(done) or looks(done)

    with ExitStack() as open_files:
        open_files.enter_context(_opened(folder, run, resume, overwrite))
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
            if saves(done) or ending.came_at(done):
                checkpoints.save(done)
            if run.world.leads:
                report(done, metrics)
            if run.is_solved(validations):
                break
            if ending.came_at(done) and done < steps:
                raise RunStopped(f"stopped after {done} of {steps} steps")
        checkpoints.finish()
        run.save_model(folder / MODEL)
    return RunOutcome(done, validations, metrics)


@contextmanager
def _opened(folder: Path, run: TrainingRun, resume: bool, overwrite: bool) -> Iterator[None]:
    """Lock the folder for this run, check what is in it and write its run file; no process writes before all have checked."""
    is_there = (folder / RUN_FILE).exists() and not overwrite
    if is_there:
        if not resume:
            raise ValueError(
                f"{folder} already holds a run: add --resume to go on with it, name another folder with --out, "
                "or add --overwrite to replace it"
            )
        if not run.is_stored_in(folder / RUN_FILE):
            raise ValueError(f"{folder} holds a run with another {run.settings}: name another folder")
    with claimed(folder, RUN, known=is_there, overwrite=overwrite) if run.world.leads else nullcontext():
        is_new = not (folder / RUN_FILE).exists()
        run.world.wait()
        if run.world.leads and is_new:
            write_json(folder / RUN_FILE, run.config.to_json())
        run.world.wait()
        yield


class Ending:
    """The early end of a run: the first step at whose end `is_over` is true is the last one, in all of its processes."""

    def __init__(self, is_over: Callable[[], bool] | None, world: Processes) -> None:
        self._is_over, self._world = is_over, world
        self._last: int | None = None

    def comes_at(self, done: int) -> bool:
        """Return whether step `done`, which has just been taken, is the last one; all processes ask after every step."""
        if self._last is None and self._is_over is not None and self._world.any(self._is_over()):
            self._last = done
        return self._last == done

    def came_at(self, done: int) -> bool:
        """Return what `comes_at` has decided for step `done`, whose outcome a GPU run reads only some time after taking it."""
        return self._last == done
