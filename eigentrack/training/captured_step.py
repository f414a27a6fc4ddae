"""A training step as one CUDA graph: captured once, then replayed with another number and learning rate.

A step of these small models is hundreds to thousands of kernels of a few microseconds each; launched one by one they leave
the GPU idle most of the time. While a batch is learnt from, the next one is sampled beside it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.layers import Dense
from eigentrack.models import SequenceModel
from eigentrack.tasks import Batch
from eigentrack.training.step import TrainingStep

WARM_UP = 3  # steps run one by one: the optimiser makes its state, libraries their workspaces, samplers copy their tables


def can_be_captured(model: SequenceModel) -> bool:
    """A dense mixer with a range needs a spectral norm, whose algorithm stops to look at its own progress."""
    return not any(isinstance(module, Dense) and module.eigenvalues is not None for module in model.modules())


class CapturedStep:
    """Takes the same steps as the TrainingStep it is given, on the same batches."""

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._number = torch.zeros((), dtype=torch.int64, device=step.device)
        self._learning, self._sampling = torch.cuda.Stream(step.device), torch.cuda.Stream(step.device)
        self._warm_up = WARM_UP
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None  # what the graph learns from
        self._batch_number = -1
        self._outcome: Tensor | None = None

    def __call__(self, number: int) -> Tensor:
        if self._warm_up:
            self._warm_up -= 1
            return self._run_aside(number)
        if self._graph is None or self._outcome is None:
            self._graph, self._outcome = self._capture(number)
        self._step.set_rate(number)
        self._number.fill_(number)
        if self._batch_number != number:  # not the step after the last one
            self._load(self._step.sample(number))
        self._graph.replay()
        self._batch_number = number + 1
        return self._outcome.clone()

    def _run_aside(self, number: int) -> Tensor:
        """On the stream that will be captured: its libraries keep workspaces for each stream."""
        self._learning.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._learning):
            outcome = self._step(number)
        torch.cuda.current_stream().wait_stream(self._learning)
        return outcome

    def _capture(self, number: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        self._batch = self._step.sample(number)
        self._batch_number = number
        self._step.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._learning):
            self._sampling.wait_stream(self._learning)
            with torch.cuda.stream(self._sampling):
                upcoming = self._step.sample(self._number + 1)
            outcome = self._step.learn(self._batch)
            self._learning.wait_stream(self._sampling)
            self._load(upcoming)
        return graph, outcome

    def _load(self, batch: Batch) -> None:
        for name in ("tokens", "targets", "weight"):
            getattr(self._batch, name).copy_(getattr(batch, name))
