"""RMSNorm: x / √(mean x² + eps) ⊙ weight, in the weight's precision; and keys of length one, x / |x|."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigentrack.layers.validation import require_positive_number


class RMSNorm(nn.RMSNorm):
    """Under autocast the input comes in half precision and the weight is float32: the mean of squares should be, too."""

    def __init__(self, width: int, *, eps: float | None = None) -> None:
        """`eps=None`: the least difference from 1 that the input's type knows."""
        if eps is not None:
            require_positive_number(norm_eps=eps)
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


def unit(x: Tensor, smallest: float = 1e-6) -> Tensor:
    """Return x / max(|x|, smallest) over the last axis: keys of length one, so that β alone decides the eigenvalue 1 - β |k|².

    Others add a small number under the root instead; then |k|² < 1 and the eigenvalue -1 is out of reach.
    """
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(smallest)
