"""Token shift: x_{t-1} beside x_t, from the window of one token that the state carries.

B batch  T time  S sequences  d model width
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import sequence_lengths


def previous_token(
    x: Float[Tensor, "B T d"], window: Float[Tensor, "S 1 d"], cu_seqlens: Tensor | None
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "S 1 d"]]:
    """x one token later, with the window in front, and the window for what follows."""
    window = window.to(x.dtype)
    if cu_seqlens is None:
        return torch.cat([window, x[:, :-1]], dim=1), x[:, -1:]
    sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)  # wrong bounds are an error
    bounds = cu_seqlens.to(x.device, torch.int64)
    return x.roll(1, dims=1).index_copy(1, bounds[:-1], window.transpose(0, 1)), x[0, bounds[1:] - 1, None]
