"""Keys of length one, so that β alone decides the eigenvalue 1 - β |k|²."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(x: Tensor, smallest: float = 1e-6) -> Tensor:
    """x / max(|x|, smallest) over the last axis.

    Others add a small number under the root instead; then |k|² < 1 and the eigenvalue -1 is out of reach.
    """
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(smallest)
