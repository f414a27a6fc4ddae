"""TrainingConfig: how a model is trained on a task."""

from __future__ import annotations

from dataclasses import dataclass

from eigentrack.tasks.task import check_lengths
from eigentrack.training.optimization import OptimizationConfig, check_pair


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(OptimizationConfig):
    lengths: tuple[int, int]  # shortest and longest training sequence
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pair("lengths", self.lengths, whole=True)
        check_lengths(self.lengths)
        self._check("label_smoothing", lambda share: 0 <= share < 1, "at least 0 and below 1")
