"""The training loop: step after step, read as seldom as the device likes, stopped where a loss or gradient is not finite."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from eigentrack.models import SequenceModel
from eigentrack.tasks import Task
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.config import TrainingConfig
from eigentrack.training.step import Outcome, Step, TrainingStep, read_outcomes

READ_EVERY = 32  # steps on a GPU: reading waits until the device is done


def train(
    model: SequenceModel,
    task: Task,
    config: TrainingConfig,
    report: Callable[[int, float], None] | None = None,
    *,
    graph: bool = True,
) -> None:
    """Trains in place; `report(step, loss)` is called for every step. `graph`: on a GPU, replay the step as a CUDA graph."""
    step = TrainingStep(model, task, config)
    for outcome in take_steps(step, 0, config.steps, run=CapturedStep(step) if graph and step.can_be_captured else step):
        if report is not None:
            report(outcome.number, outcome.loss)


def take_steps(
    step: Step,
    first: int,
    last: int,
    *,
    run: Callable[[int], Tensor] | None = None,
    pause: Callable[[int], bool] = lambda done: False,
    read_every: int = READ_EVERY,
) -> Iterator[Outcome]:
    """Takes the steps first..last-1, through `run` if it is given, which takes the same ones faster.

    `pause(steps done)` is asked after every step; where it holds, the model is not moved any further before that is read.
    """
    run, unread, before, start = run or step, [], None, time.perf_counter()
    for number in range(first, last):
        unread.append(run(number))
        pauses = pause(number + 1) or number + 1 == last
        if step.device.type == "cuda" and len(unread) < read_every and not pauses:
            continue
        numbers = list(range(number + 1 - len(unread), number + 1))
        outcomes = read_outcomes(list(step.parts), numbers, unread)
        seconds = (time.perf_counter() - start) / len(unread)
        for outcome in outcomes:
            check_finite(outcome, before, step.config.rate(outcome.number))
            yield replace(outcome, seconds=seconds)
            before = outcome
        unread.clear()
        start = time.perf_counter()


class Diverged(ValueError):
    """A loss or a gradient that is no longer finite has ended the run.

    `step` counts from 1, as the metrics do; what was written up to the last checkpoint stays as it is.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


def check_finite(outcome: Outcome, before: Outcome | None, rate: float) -> None:
    """`before` is the outcome of the step before, if there was one: what the last finite gradient looked like."""
    if math.isfinite(outcome.loss) and math.isfinite(outcome.gradient_norm):
        return
    step = outcome.number + 1
    if math.isfinite(outcome.loss):
        # a gradient flows from the head down: the part nearest to the head is where it broke
        *_, part = (name for name, norm in outcome.gradient_norms.items() if not math.isfinite(norm))
        what = f"the gradient of {part} is not finite at step {step} (loss {outcome.loss:.4g})"
    else:
        what = f"the loss is {outcome.loss} at step {step}"
    history = ""
    if before is not None:
        largest, norm = max(before.gradient_norms.items(), key=lambda item: item[1])
        history = f"; the step before had loss {before.loss:.4g} and its largest gradient norm, {norm:.4g}, in {largest}"
    raise Diverged(f"{what}: lower the learning rate ({rate:g}){history}", step)
