"""A training step as one CUDA graph, which is captured once and then replayed with other batches and learning rates.

A step of a small model consists of hundreds to thousands of kernels of a few microseconds each: if they were launched one by
one, the GPU would be idle most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigentrack.training.step import Step

WARM_UP = 3  # steps without a graph, in which optimiser state, library workspaces and the samplers' tables are created


class CapturedStep:
    """A callable that takes the same steps as `step`, on the same batches, as a CUDA graph."""

    def __init__(self, step: Step) -> None:
        self._step, self._warm_up = step, WARM_UP
        self._stream = torch.cuda.Stream(step.device)
        self._feed: Callable[[int], Any] | None = None  # returns the batch of a step
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: list[Tensor] = []  # the tensors that the graph reads its batch from
        self._outcome: Tensor | None = None

    def __call__(self, number: int) -> Tensor:
        if self._warm_up:
            self._warm_up -= 1
            return self._run_aside(number)
        if self._feed is None or self._graph is None or self._outcome is None:
            self._feed = self._step.feed(self._stream)
            self._graph, self._outcome = self._capture(number)
        self._step.prepare(number)
        for held, given in zip(self._batch, self._step.tensors(self._feed(number)), strict=True):
            held.copy_(given)
        self._graph.replay()
        return self._outcome.clone()

    def _run_aside(self, number: int) -> Tensor:
        """Take the step without a graph, on the stream that will be captured, as libraries keep workspaces for each stream."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            outcome = self._step(number)
        torch.cuda.current_stream().wait_stream(self._stream)
        return outcome

    def _capture(self, number: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        batch = self._step.sample(number)
        self._batch = self._step.tensors(batch)
        self._step.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            outcome = self._step.learn(batch)
        return graph, outcome
