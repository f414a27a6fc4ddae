"""Whether torch.compile pays for a training: half a minute for a new shape, a whole one where a sweep keeps all cores busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eigentrack.layers.slstm import SLSTM
from eigentrack.models import SequenceModel
from eigentrack.ops.slstm.op import SLSTM as SLSTM_OP

STEPS_TO_PAY = 5000  # of a few milliseconds, of which it saves up to half
MODELS_IN_A_PROCESS = 256  # a sweep trains many of them one after another, and each shape is compiled anew
LOOPING = ("slstm", "lstm")  # take one token after another; torch.compile unrolls the loop, which takes many minutes


def worth_compiling(model: SequenceModel, steps: int) -> bool:
    """On a GPU, if the run is long enough and no layer loops over time."""
    return next(model.parameters()).is_cuda and steps >= STEPS_TO_PAY and not looping_mixers(model)


def looping_mixers(model: SequenceModel) -> list[str]:
    """sLSTM loops only where its kernel does not run: it walks through time in one launch."""
    looping = set(model.config.mixers).intersection(LOOPING)
    if all(_has_kernel(layer) for layer in model.modules() if isinstance(layer, SLSTM)):
        looping.discard("slstm")
    return sorted(looping)


def _has_kernel(layer: SLSTM) -> bool:
    recurrent = layer.gates.recurrent
    token = recurrent.new_empty(1, 1, *recurrent.shape[:3])
    state = layer.initial_state(1).memory
    return SLSTM_OP.runs_kernel(layer.backend, token, recurrent=recurrent, initial_state=state)


def compile_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MODELS_IN_A_PROCESS)
    return torch.compile(function, dynamic=False)
