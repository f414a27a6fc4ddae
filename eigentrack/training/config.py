"""TrainingConfig: how a model is trained on a task."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eigentrack.layers.validation import require_positive
from eigentrack.tasks.task import check_lengths


@dataclass(frozen=True)
class TrainingConfig:
    steps: int
    batch: int
    lengths: tuple[int, int]  # shortest and longest training sequence
    learning_rate: float = 1e-3
    warmup: int = 20
    final_rate: float = 0.05  # of the learning rate, at the end of the cosine
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0
    label_smoothing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_positive(steps=self.steps, batch=self.batch)
        check_lengths(self.lengths)
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be positive")
        if not 0 <= self.warmup <= self.steps:
            raise ValueError(f"warmup={self.warmup} must lie between 0 and steps={self.steps}")

    def rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to `final_rate`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        floor = self.final_rate
        return self.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
