"""Whether torch.compile pays for a training: half a minute for a new shape, a whole one where a sweep keeps all cores busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eigentrack.models import SequenceModel

STEPS_TO_PAY = 5000  # of a few milliseconds, of which it saves up to half
MODELS_IN_A_PROCESS = 256  # a sweep trains many of them one after another, and each shape is compiled anew


def worth_compiling(model: SequenceModel, steps: int) -> bool:
    """On a GPU, if the run is long enough and no layer loops over time."""
    return next(model.parameters()).is_cuda and steps >= STEPS_TO_PAY and not looping_mixers(model)


def looping_mixers(model: SequenceModel) -> list[str]:
    """The names of mixers that take one token after another: torch.compile unrolls the loop, which takes many minutes."""
    return sorted({name for name, mixer in zip(model.config.mixers, model.mixers, strict=True) if mixer.loops_over_time})


def compile_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MODELS_IN_A_PROCESS)
    return torch.compile(function, dynamic=False)
