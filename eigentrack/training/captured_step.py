"""A training step as one CUDA graph: captured once, then replayed with another batch and learning rate.

A step of these small models is hundreds to thousands of kernels of a few microseconds each; launched one by one they leave
the GPU idle most of the time. Drawing a batch takes a hundred kernels and more whatever its size, hence a second graph that
draws the batches of many steps at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.tasks import Batch
from eigentrack.training.step import TrainingStep

WARM_UP = 3  # steps run one by one: the optimiser makes its state, libraries their workspaces, samplers copy their tables
MOST_AHEAD = 16  # steps whose batches are drawn at once
TOKENS_AHEAD = 2**22  # of them all, if one batch is not larger


class CapturedStep:
    """Takes the same steps as the TrainingStep it is given, on the same batches."""

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._learning = torch.cuda.Stream(step.device)
        self._warm_up = WARM_UP
        self._batches: _BatchesAhead | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None  # what the graph learns from
        self._outcome: Tensor | None = None

    def __call__(self, number: int) -> Tensor:
        if self._warm_up:
            self._warm_up -= 1
            return self._run_aside(number)
        if self._graph is None or self._batches is None or self._outcome is None:
            self._batches = _BatchesAhead(self._step, self._learning)
            self._graph, self._outcome = self._capture(number)
        self._step.prepare(number)
        self._load(self._batches.of(number))
        self._graph.replay()
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
        self._step.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._learning):
            outcome = self._step.learn(self._batch)
        return graph, outcome

    def _load(self, batch: Batch) -> None:
        for name in ("tokens", "targets", "weight"):
            getattr(self._batch, name).copy_(getattr(batch, name))


class _BatchesAhead:
    """The batches of a run of steps, in a graph that draws them all."""

    def __init__(self, step: TrainingStep, stream: torch.cuda.Stream) -> None:
        self._rows = step.config.batch
        ahead = max(1, min(MOST_AHEAD, TOKENS_AHEAD // (self._rows * step.config.lengths[1])))
        self._places = torch.arange(ahead, device=step.device)
        self._numbers = self._places.clone()  # of the steps
        self._first: int | None = None
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            self._drawn = step.sample(self._numbers)

    def of(self, number: int) -> Batch:
        ahead = len(self._numbers)
        if self._first is None or not self._first <= number < self._first + ahead:
            torch.add(self._places, number, out=self._numbers)
            self._graph.replay()
            self._first = number
        rows = slice((number - self._first) * self._rows, (number - self._first + 1) * self._rows)
        return Batch(self._drawn.tokens[rows], self._drawn.targets[rows], self._drawn.weight[rows])
