"""LanguageLoss: tokens and targets in, summed cross-entropy out; one module, so that FSDP has the head whole for the loss."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from eigentrack.models import SequenceModel
from eigentrack.ops.cross_entropy.op import summed_cross_entropy


class LanguageLoss(nn.Module):
    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int[Tensor, "B T"], targets: Int[Tensor, "B T"], cu_seqlens: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """In nats, over all targets that are asked for."""
        x, _ = self.model.hidden(tokens, None, cu_seqlens)
        return summed_cross_entropy(
            x.flatten(0, 1), self.model.head.weight, targets.flatten(), backend=self.model.config.backend
        )
