"""Diverged: a loss or a gradient that is no longer finite ends the run, with the step and the cause."""

from __future__ import annotations

import math

from eigentrack.training.step import Outcome


class Diverged(ValueError):
    """`step` counts from 1, as the metrics do; what was written up to the last checkpoint stays as it is."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


def check_finite(outcome: Outcome, before: Outcome | None, rate: float) -> None:
    """`before` is the outcome of the step before, if there was one: what the last finite gradient looked like."""
    if math.isfinite(outcome.loss) and math.isfinite(outcome.gradient_norm):
        return
    step = outcome.number + 1
    if math.isfinite(outcome.loss):
        # a gradient flows from the head down: the part nearest to the head is where it broke
        *_, part = (name for name, norm in outcome.gradient_norms.items() if not math.isfinite(norm))
        what = f"the gradient of {part} is not finite at step {step} (loss {outcome.loss:.4g})"
    else:
        what = f"the loss is {outcome.loss} at step {step}"
    history = ""
    if before is not None:
        largest, norm = max(before.gradient_norms.items(), key=lambda item: item[1])
        history = f"; the step before had loss {before.loss:.4g} and its largest gradient norm, {norm:.4g}, in {largest}"
    raise Diverged(f"{what}: lower the learning rate ({rate:g}){history}", step)
