"""OptimizationConfig: what every training has: how many steps, AdamW's numbers, the learning rate's way up and down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eigentrack.layers.validation import require_positive

# float32 throughout; tfloat32: matrix products of a GPU read 10 bits of their float32 inputs, those of the recurrence included;
# bfloat16: projections in bfloat16 over weights that are kept, moved and summed in float32
PRECISIONS = ("float32", "tfloat32", "bfloat16")
LARGEST_SEED = 2**63 - 1  # that torch takes
WARMUP = 20  # steps


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig:
    steps: int
    batch: int  # sequences a step
    learning_rate: float = 1e-3
    warmup: int = WARMUP
    final_rate: float = 0.05  # of the learning rate, at the end of the cosine
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0
    seed: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        require_positive(steps=self.steps, batch=self.batch)
        check_pair("betas", self.betas)
        check_seed(self.seed)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision={self.precision!r} is not known; there are {', '.join(PRECISIONS)}")
        self._check("learning_rate", lambda rate: rate > 0, "positive")
        self._check("warmup", lambda steps: 0 <= steps <= self.steps, f"between 0 and steps={self.steps}")
        self._check("final_rate", lambda share: 0 <= share <= 1, "between 0 and 1")
        self._check("weight_decay", lambda decay: decay >= 0, "at least 0")
        self._check("betas", lambda betas: all(0 <= beta < 1 for beta in betas), "at least 0 and below 1")
        self._check("clip", lambda norm: norm > 0, "positive")

    def rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to `final_rate`."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        floor = self.final_rate
        return self.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))

    def _check(self, name: str, holds: Callable[[Any], bool], wanted: str) -> None:
        value = getattr(self, name)
        parts = value if isinstance(value, tuple) else (value,)
        if any(_is_number(part) and not math.isfinite(part) for part in parts):
            raise ValueError(f"{name}={value!r} must be finite")
        if not all(_is_number(part) for part in parts) or not holds(value):
            raise ValueError(f"{name}={value!r} must be {wanted}")


def check_seed(seed: Any) -> None:
    if not _is_whole(seed) or abs(seed) > LARGEST_SEED:
        raise ValueError(f"seed={seed!r} must be a whole number from {-LARGEST_SEED} to {LARGEST_SEED}")


def check_pair(name: str, pair: Any, *, whole: bool = False) -> None:
    is_right = _is_whole if whole else _is_number
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(is_right(value) for value in pair):
        raise ValueError(f"{name}={pair!r} must be two {'whole ' if whole else ''}numbers")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
