"""Watched steps: a network is stepped as it is, and every step is repeated later under the exactness check, many at once.

Watching an op takes longer than the op, and in a small batch far longer. What is rounded in no batch is rounded in no step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.compiler.chunk_bounds import InputRecord
from eigentrack.compiler.closure import STEP_BATCH
from eigentrack.compiler.exactness import ExactnessCheck
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState


class WatchedSteps:
    """After `finish`, `check` holds the faults and `record` the inputs of the layers, of all steps."""

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        self.check, self.record = ExactnessCheck(model.parameters()), InputRecord(model)
        self._tokens: list[Tensor] = []
        self._states: list[ModelState] = []

    def step(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        if state is None:  # the begin token
            return self._watched(token, None)
        self._tokens.append(token)
        self._states.append(state)
        if sum(map(len, self._tokens)) >= STEP_BATCH:
            self.finish()
        return self._model.step(token, state)

    def finish(self) -> None:
        if self._tokens:
            self._watched(torch.cat(self._tokens), ModelState.stack(self._states))
        self._tokens, self._states = [], []

    def _watched(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        with self.record, self.check:
            return self._model.step(token, state)
