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
        for name in ("lengths", "betas"):
            if not isinstance(getattr(self, name), tuple) or len(getattr(self, name)) != 2:
                raise ValueError(f"{name}={getattr(self, name)!r} must be two numbers")
        check_lengths(self.lengths)
        if not isinstance(self.seed, int):
            raise ValueError(f"seed={self.seed!r} must be a whole number")
        self._check("learning_rate", self.learning_rate > 0, "positive")
        self._check("warmup", 0 <= self.warmup <= self.steps, f"between 0 and steps={self.steps}")
        self._check("final_rate", 0 <= self.final_rate <= 1, "between 0 and 1")
        self._check("weight_decay", self.weight_decay >= 0, "at least 0")
        self._check("betas", all(0 <= beta < 1 for beta in self.betas), "at least 0 and below 1")
        self._check("clip", self.clip > 0, "positive")
        self._check("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")

    def _check(self, name: str, holds: bool, wanted: str) -> None:
        value = getattr(self, name)
        finite = all(math.isfinite(part) for part in (value if isinstance(value, tuple) else (value,)))
        if not holds or not finite:
            raise ValueError(f"{name}={value} must be {wanted}")

    def rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to `final_rate`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        floor = self.final_rate
        return self.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
