"""One twin of the Train room: a small run, step by step until it is told to stop, then its accuracy at lengths it never saw.

The folder that it leaves is a training run like any other: run.json and model/.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from eigentrack.explorer.worker import Line
from eigentrack.models import SequenceModel, save_model
from eigentrack.models.storage import write_json
from eigentrack.tasks import TrackingTask
from eigentrack.training.evaluation import length_curve
from eigentrack.training.loop import take_steps
from eigentrack.training.run import MODEL, RUN_FILE, RunConfig
from eigentrack.training.step import TrainingStep

REPORT_EVERY = 5  # steps
LONGEST = 512  # letters in the test
TESTED = 128  # words


@dataclass(frozen=True)
class StepNews:
    step: int
    loss: float
    accuracy: float


def train_twin(line: Line, config: RunConfig, folder: Path) -> tuple[float, ...]:
    """For a worker: the accuracy at lengths 1..LONGEST."""
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
