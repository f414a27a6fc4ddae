"""A step of language-model training as one CUDA graph: captured once, then replayed on other rows.

For one process, and rows whose states run on from document to document: where documents are packed, the shapes change with
every batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.lm.batches import PackedBatch
from eigentrack.lm.step import LanguageStep
from eigentrack.training.captured_step import WARM_UP


def can_capture(step: LanguageStep) -> bool:
    is_alone_on_a_gpu = step.device.type == "cuda" and step.world.ranks == 1
    return is_alone_on_a_gpu and not step.config.reset_documents


class CapturedLanguageStep:
    """Takes the same steps as the LanguageStep it is given, on the same rows."""

    def __init__(self, step: LanguageStep) -> None:
        self._step, self._warm_up = step, WARM_UP
        self._stream = torch.cuda.Stream(step.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._rows: list[PackedBatch] = []  # what the graph learns from
        self._outcome: Tensor | None = None

    def __call__(self, number: int) -> Tensor:
        if self._warm_up:
            self._warm_up -= 1
            return self._run_aside(number)
        rows = self._step.shares(self._step.batches, number)
        self._step.prepare(number)
        if self._graph is None or self._outcome is None:
            self._rows = rows
            self._graph, self._outcome = self._capture()
        for held, given in zip(self._rows, rows, strict=True):
            held.tokens.copy_(given.tokens)
            held.targets.copy_(given.targets)
        self._graph.replay()
        return self._outcome.clone()

    def _run_aside(self, number: int) -> Tensor:
        """On the stream that will be captured: its libraries keep workspaces for each stream."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            outcome = self._step(number)
        torch.cuda.current_stream().wait_stream(self._stream)
        return outcome

    def _capture(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        self._step.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            outcome = self._step.learn(self._rows)
        return graph, outcome
