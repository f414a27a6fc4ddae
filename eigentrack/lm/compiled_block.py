"""compile_block: torch.compile for a block of a language model, with a backward pass that keeps little.

torch.compile keeps what a matrix product of the backward pass reads, such as the product silu(gate) · up of an MLP, though gate
and up are kept too. Elementwise passes and norms are cheap to take again: these are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config

from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.distributed import World
from eigentrack.models import SequenceModel
from eigentrack.training.compilation import looping_mixers

STEPS_TO_PAY = 2000  # a minute at most is spent on blocks that are all alike
_TAKE_AGAIN = dict.fromkeys(
    ("ban_recompute_materialized_backward", "ban_recompute_used_far_apart", "ban_recompute_long_fusible_chains"), False
)


def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
    compiled = torch.compile(forward, dynamic=False)

    def run(*given: Any, **named: Any) -> Any:
        with torch._functorch.config.patch(_TAKE_AGAIN):  # asked when it compiles, which is at the first call
            return compiled(*given, **named)

    return run


def pays_to_compile(model: SequenceModel, training: LanguageTrainingConfig, world: World) -> bool:
    """In a long run on one GPU whose shapes stay the same: packed documents change them with every batch."""
    alone_on_a_gpu = world.device.type == "cuda" and world.ranks == 1
    return alone_on_a_gpu and not training.reset_documents and training.steps >= STEPS_TO_PAY and not looping_mixers(model)
