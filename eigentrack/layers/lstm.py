"""LSTM, the classic non-linear baseline; equations in `ops/lstm/reference.py`.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState
from eigentrack.layers.validation import head_width
from eigentrack.ops import lstm
from eigentrack.ops.shared.packing import Packing


class RecurrentGates(nn.Module):
    """The projection of the input to the gates (z, i, f, o) of LSTM and sLSTM, and their recurrent matrices for each head."""

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


class LSTM(Mixer):
    """An LSTM whose `heads` heads have separate recurrent matrices; `d_model` is the width of the input and the output."""

    def __init__(self, d_model: int, *, heads: int = 1) -> None:
        super().__init__(d_model)
        self.heads, self.width = heads, head_width(d_model, heads)
        self.gates = RecurrentGates(d_model, heads)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    @property
    def loops_over_time(self) -> bool:
        return True

    def initial_state(self, sequences: int) -> MixerState:
        zeros = self._zeros(sequences, self.heads, self.width)
        return MixerState((zeros, zeros))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        c, h = state.memory
        y, last = lstm(self.gates(x), recurrent=self.gates.recurrent, initial_state=(c, h), cu_seqlens=packing, backend=backend)
        return self.out_proj(y.flatten(-2)), MixerState(last)
