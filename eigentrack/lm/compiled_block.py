"""compile_block: torch.compile for a block of a language model, with a backward pass that keeps little.

torch.compile keeps what a matrix product of the backward pass reads, such as the product silu(gate) · up of an MLP, though gate
and up are kept too. Elementwise passes and norms are cheap to take again: these are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config

_TAKE_AGAIN = dict.fromkeys(
    ("ban_recompute_materialized_backward", "ban_recompute_used_far_apart", "ban_recompute_long_fusible_chains"), False
)


def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
    compiled = torch.compile(forward, dynamic=False)

    def run(*given: Any, **named: Any) -> Any:
        with torch._functorch.config.patch(_TAKE_AGAIN):  # asked when it compiles, which is at the first call
            return compiled(*given, **named)

    return run
