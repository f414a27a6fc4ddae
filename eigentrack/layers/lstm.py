"""LSTM, the classic non-linear baseline; equations in `ops/lstm/reference.py`.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState
from eigentrack.layers.recurrent_gates import RecurrentGates
from eigentrack.layers.validation import head_width
from eigentrack.ops import lstm
from eigentrack.ops.shared.packing import Packing


class LSTM(Mixer):
    def __init__(self, d_model: int, *, heads: int = 1) -> None:
        super().__init__(d_model)
        self.heads, self.width = heads, head_width(d_model, heads)
        self.gates = RecurrentGates(d_model, heads)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        zeros = self._zeros(sequences, self.heads, self.width)
        return MixerState((zeros, zeros))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        c, h = state.memory
        y, last = lstm(self.gates(x), recurrent=self.gates.recurrent, initial_state=(c, h), cu_seqlens=packing, backend=backend)
        return self.out_proj(y.flatten(-2)), MixerState(last)
