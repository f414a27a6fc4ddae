"""What the non-linear baselines share: gates (z, i, f, o) read from the input, and a recurrent block for each head.

H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.validation import head_width


class RecurrentGates(nn.Module):
    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        width = head_width(d_model, heads)
        self.heads = heads
        self.input_proj = nn.Linear(d_model, 4 * d_model)
        self.recurrent = nn.Parameter(torch.empty(heads, 4, width, width).uniform_(-(width**-0.5), width**-0.5))
        with torch.no_grad():  # forget gates start open
            self.input_proj.bias.view(heads, 4, width)[:, 2] = 1.0

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H 4 D"]:
        return self.input_proj(x).unflatten(-1, (self.heads, 4, -1))
