"""RMSNorm: x / √(mean x² + eps) ⊙ weight, in the weight's precision."""

from __future__ import annotations

from torch import Tensor, nn

from eigentrack.layers.validation import require_positive_number


class RMSNorm(nn.RMSNorm):
    """An RMS norm that computes in the precision of its weight, also if autocast gives it an input in half precision."""

    def __init__(self, width: int, *, eps: float | None = None) -> None:
        """Create the norm of `width` channels; `eps=None` is the machine epsilon of the weight's type."""
        if eps is not None:
            require_positive_number(norm_eps=eps)
        super().__init__(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))
