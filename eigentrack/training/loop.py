"""The training loop: step after step, read as seldom as the device likes, stopped where a loss or gradient is not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from eigentrack.models import SequenceModel
from eigentrack.tasks import Task
from eigentrack.training.captured_step import CapturedStep, can_be_captured
from eigentrack.training.config import TrainingConfig
from eigentrack.training.divergence import check_finite
from eigentrack.training.step import Outcome, TrainingStep, read_outcomes

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
    for outcome in take_steps(TrainingStep(model, task, config), 0, config.steps, graph=graph):
        if report is not None:
            report(outcome.number, outcome.loss)


def take_steps(
    step: TrainingStep, first: int, last: int, *, graph: bool = True, pause: Callable[[int], bool] = lambda done: False
) -> Iterator[Outcome]:
    """Takes the steps first..last-1. Whenever `pause(steps done)` holds, the model has not been moved any further."""
    is_cuda = step.device.type == "cuda"
    run: Callable[[int], Tensor] = CapturedStep(step) if graph and is_cuda and can_be_captured(step.model) else step
    read_every, unread, before = READ_EVERY if is_cuda else 1, [], None
    for number in range(first, last):
        unread.append(run(number))
        if len(unread) < read_every and number + 1 < last and not pause(number + 1):
            continue
        numbers = list(range(number + 1 - len(unread), number + 1))
        for outcome in read_outcomes(list(step.parts), numbers, unread):
            check_finite(outcome, before, step.config.rate(outcome.number))
            yield outcome
            before = outcome
        unread.clear()
