"""Precision sweep: the horizon of the same weights in float64, float32, bfloat16 and float16, and with subnormals flushed to 0.

Half-precision weights still carry a float32 state, as in training and decoding. A horizon that grows with the bits is rounding;
one that does not is in the weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from eigentrack.analysis.horizon import PatternHorizon, find_horizons
from eigentrack.analysis.input_patterns import Pattern
from eigentrack.analysis.subject import Subject

PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
FLUSHED = "float32, flush to zero"


@dataclass(frozen=True)
class PrecisionHorizons:
    precision: str
    horizons: tuple[PatternHorizon, ...]

    @property
    def worst(self) -> PatternHorizon:
        return min(self.horizons, key=lambda horizon: (horizon.letters, horizon.is_open))


def precision_sweep(
    subject: Subject,
    patterns: Sequence[Pattern],
    longest: int,
    *,
    seed: int,
    progress: Callable[[str, int], None] | None = None,
) -> tuple[PrecisionHorizons, ...]:
    """`progress(precision, letters done)`. Flushing is left out where the processor, or a GPU, cannot be told to."""
    cases = list(PRECISIONS)
    if subject.device.type == "cpu" and _can_flush():
        cases.append(FLUSHED)
    found = []
    for name in cases:
        model = copy.deepcopy(subject.model).to(PRECISIONS.get(name, torch.float32))

        def report(done: int, name: str = name) -> None:
            if progress is not None:
                progress(name, done)

        with _flushed() if name == FLUSHED else nullcontext():
            horizons = find_horizons(replace(subject, model=model), patterns, longest, seed=seed, progress=report)
        found.append(PrecisionHorizons(name, horizons))
    return tuple(found)


def _can_flush() -> bool:
    possible = torch.set_flush_denormal(True)
    torch.set_flush_denormal(False)
    return possible


@contextmanager
def _flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
