"""Whether torch.compile pays for a training: half a minute for a new shape, seconds for one in its cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eigentrack.layers import MIXERS, LinearMixer
from eigentrack.models import SequenceModel

STEPS_TO_PAY = 2000
MODELS_IN_A_PROCESS = 256  # a sweep trains many of them one after another, and each shape is compiled anew


def worth_compiling(model: SequenceModel, steps: int) -> bool:
    """On a GPU, if the run is long enough. A loop over time, as sLSTM has, would be unrolled: that takes many minutes."""
    on_gpu = next(model.parameters()).is_cuda
    return on_gpu and steps >= STEPS_TO_PAY and all(_is_parallel(name) for name in model.config.mixers)


def compile_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MODELS_IN_A_PROCESS)
    return torch.compile(function, dynamic=False)


def _is_parallel(name: str) -> bool:
    return name in ("attention", "convolution") or issubclass(MIXERS[name], LinearMixer)
