"""The training loop, which reads outcomes in groups on a GPU and stops if a loss or a gradient is not finite."""

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

READ_EVERY = 32  # on a GPU, outcomes are read every so many steps, as reading waits for the device


def train(
    model: SequenceModel,
    task: Task,
    config: TrainingConfig,
    report: Callable[[int, float], None] | None = None,
    *,
    graph: bool = True,
) -> None:
    """Train a model in place.

    Args:
        model: the model to train.
        task: the task that draws the batches.
        config: how to train.
        report: called with the number (from 0) and the loss of every step; None: nothing is reported.
        graph: whether to replay the step as a CUDA graph, on a GPU.
    """
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
    """Take the steps first..last-1 and yield their outcomes; raise Diverged if one is not finite.

    Args:
        step: the training step.
        first: the number of the first step.
        last: the number after that of the last step.
        run: a faster function that takes the same steps, such as a CapturedStep; None: `step` itself.
        pause: called with the number of steps done; if it returns true, no further step is taken before the outcomes so far
            have been yielded.
        read_every: on a GPU, the number of steps whose outcomes are read together.
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
    """The error that ends a run when a loss or a gradient is not finite.

    `message` says which one; `step` counts from 1, as the metrics do. Checkpoints and metrics on disk stay as they are.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


def check_finite(outcome: Outcome, before: Outcome | None, rate: float) -> None:
    """Raise Diverged if the loss or a gradient norm is not finite.

    The message quotes the outcome `before` this step (None: unknown) and the learning rate.
    """
    if math.isfinite(outcome.loss) and math.isfinite(outcome.gradient_norm):
        return
    step = outcome.number + 1
    if math.isfinite(outcome.loss):
        # gradients flow from the head down, so the first to be not finite is the part nearest to the head
        *_, part = (name for name, norm in outcome.gradient_norms.items() if not math.isfinite(norm))
        what = f"the gradient of {part} is not finite at step {step} (loss {outcome.loss:.4g})"
    else:
        what = f"the loss is {outcome.loss} at step {step}"
    history = ""
    if before is not None:
        largest, norm = max(before.gradient_norms.items(), key=lambda item: item[1])
        history = f"; the step before had loss {before.loss:.4g} and its largest gradient norm, {norm:.4g}, in {largest}"
    raise Diverged(f"{what}: lower the learning rate ({rate:g}){history}", step)
