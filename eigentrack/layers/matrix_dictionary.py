"""A dictionary of K matrices per head, from which every token chooses: M(x) = Σ_k softmax(S x)_k M_k.

B batch  T time  H heads  n size of the matrices  K matrices per head
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.rotating_gates import PreciseProjection
from eigentrack.layers.validation import require_positive


class MatrixDictionary(nn.Module):
    """A learned dictionary of matrices with the weights by which a token mixes them.

    With enough matrices each token has one of its own, and the weights tend to 0 and 1: the token chooses.

    Args:
        inputs: the width of the input.
        heads: the number of heads, each with matrices and weights of its own.
        size: n, the size of the matrices.
        dictionary: K, the number of matrices of a head.
    """

    def __init__(self, inputs: int, heads: int, size: int, dictionary: int) -> None:
        super().__init__()
        require_positive(heads=heads, state_size=size, dictionary=dictionary)
        self.heads = heads
        self.choice_proj = PreciseProjection(inputs, heads * dictionary)
        self.matrices = nn.Parameter(torch.randn(heads, dictionary, size, size) * size**-0.5)

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H n n"]:
        """Return the mixed matrices in the precision of the state."""
        weights = self.choice_proj(x).unflatten(-1, (self.heads, -1)).softmax(-1)
        return torch.einsum("bthk,hkij->bthij", weights, self.matrices.to(weights.dtype))
