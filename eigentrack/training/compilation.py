"""The decision whether to use torch.compile, which takes half a minute per shape, or a minute if all cores are busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eigentrack.models import SequenceModel

STEPS_TO_PAY = (
    5000  # runs of fewer steps are not compiled; a step takes a few milliseconds, of which compiling saves up to half
)
MODELS_IN_A_PROCESS = 256  # a sweep trains many models in one process, and each shape is compiled again


def worth_compiling(model: SequenceModel, steps: int) -> bool:
    """Return whether the model is on a GPU, `steps` are enough to make up for compiling, and no layer loops over time."""
    return next(model.parameters()).is_cuda and steps >= STEPS_TO_PAY and not looping_mixers(model)


def looping_mixers(model: SequenceModel) -> list[str]:
    """Return the names of the mixers that loop over time in Python; torch.compile would take many minutes to unroll them."""
    return sorted({name for name, mixer in zip(model.config.mixers, model.mixers, strict=True) if mixer.loops_over_time})


def compile_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for fixed shapes, and allow as many shapes as a sweep needs."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MODELS_IN_A_PROCESS)
    return torch.compile(function, dynamic=False)
