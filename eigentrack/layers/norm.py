"""RMSNorm: x / √(mean x² + eps) ⊙ weight, in the weight's precision."""

from __future__ import annotations

from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """Under autocast the input comes in half precision and the weight is float32: the mean of squares should be, too."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))
