"""The stage of a curriculum in which a training is: the next one begins once enough answers are right.

A step measures its accuracy before it updates the weights, on a batch that is new, and so that no answer counts twice. The mean
over LOOK_EVERY steps decides at fixed steps: whatever stops and resumes the run, the same steps have the same letters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.tasks import Batch, Task, TrackingTask
from eigentrack.tasks.curriculum import Curriculum

LOOK_EVERY = 25  # steps


class LetterSchedule:
    """The letters that a training draws, stage by stage."""

    def __init__(self, curriculum: Curriculum, task: Task, device: torch.device) -> None:
        stages = curriculum.stages(task)
        assert isinstance(task, TrackingTask)  # as only these have stages
        self.count, self._share, self._task = len(stages), curriculum.share, replace(task, stages=stages)
        self._began = [0]  # the step at which each stage so far began
        self._stage = torch.zeros(1, dtype=torch.int64, device=device)  # its place is fixed: CUDA graphs read it
        self._right = torch.zeros((), device=device)  # the accuracies since the last look, added up

    @property
    def stage(self) -> int:
        """The number of the stage, which counts from 0."""
        return len(self._began) - 1

    def stage_at(self, step: int) -> int:
        """Return the number of the stage of a step that has been taken since the run began or resumed."""
        return bisect_right(self._began, step) - 1

    def prepare(self, step: int) -> None:
        """Look whether the next stage begins with this step, if it is one of the steps to look at."""
        if step == 0 or step % LOOK_EVERY or self.stage == self.count - 1:
            return
        if float(self._right) >= self._share * LOOK_EVERY:
            self._began.append(step)
            self._stage.fill_(self.stage)
        self._right.zero_()

    def sample(self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device) -> Batch:
        """Return a batch of the task with letters of the stage alone."""
        return self._task.sample(batch, lengths, seed=seed, step=step, device=device, stage=self._stage)

    def count_answers(self, accuracy: Float[Tensor, ""]) -> None:
        """Add the accuracy of a step."""
        self._right += accuracy

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps: the stage, and the accuracies since the last look."""
        return {"curriculum.stage": self._stage, "curriculum.right": self._right}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to what `tensors` returned."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        self._began = [0] * (int(self._stage) + 1)
