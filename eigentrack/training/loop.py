"""The training loop: step after step, read as seldom as the device likes, stopped where a loss or gradient is not finite."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from eigentrack.models import SequenceModel
from eigentrack.tasks import Task
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.config import TrainingConfig
from eigentrack.training.divergence import check_finite
from eigentrack.training.optimization import OptimizationConfig
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
    step = TrainingStep(model, task, config)
    for outcome in take_steps(step, 0, config.steps, run=captured_if_possible(step) if graph else step):
        if report is not None:
            report(outcome.number, outcome.loss)


def captured_if_possible(step: TrainingStep) -> Callable[[int], Tensor]:
    return CapturedStep(step) if step.device.type == "cuda" else step


class Step(Protocol):
    """What takes the steps of a training one by one: a TrainingStep, or another's."""

    device: torch.device
    parts: dict[str, list[nn.Parameter]]

    @property
    def config(self) -> OptimizationConfig: ...

    def __call__(self, number: int, /) -> Tensor: ...


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
