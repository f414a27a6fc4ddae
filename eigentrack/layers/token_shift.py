"""Token shift: x_{t-1} beside x_t, from the window of one token that the state carries.

B batch  T time  S sequences  d model width
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.ops.shared.packing import Packing


def previous_token(
    x: Float[Tensor, "B T d"], window: Float[Tensor, "S 1 d"], cu_seqlens: Tensor | Packing | None
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "S 1 d"]]:
    """x one token later, with the window in front, and the window for what follows."""
    window = window.to(x.dtype)
    packing = Packing.of(x, cu_seqlens)
    if packing is None:
        return torch.cat([window, x[:, :-1]], dim=1), x[:, -1:]
    bounds = packing.bounds
    return x.roll(1, dims=1).index_copy(1, bounds[:-1], window.transpose(0, 1)), x[0, bounds[1:] - 1, None]
