"""sLSTM, the non-linear baseline with exponential gates; equations in `ops/slstm/reference.py`.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.recurrent_gates import RecurrentGates
from eigentrack.layers.validation import head_width
from eigentrack.ops import slstm
from eigentrack.ops.shared.packing import Packing


class SLSTM(Mixer):
    def __init__(self, d_model: int, *, heads: int = 4, norm_eps: float = 1e-5, backend: str = "auto") -> None:
        super().__init__(d_model, backend)
        self.heads, self.width = heads, head_width(d_model, heads)
        self.gates = RecurrentGates(d_model, heads)
        self.norm = RMSNorm(self.width, eps=norm_eps)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        zeros = self._zeros(sequences, self.heads, self.width)
        # an empty memory has no scale yet: m = -inf lets the first input set it
        return MixerState((zeros, zeros, zeros, torch.full_like(zeros, -torch.inf)))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        c, n, h, m = state.memory
        y, last = slstm(
            self.gates(x),
            recurrent=self.gates.recurrent,
            initial_state=(c, n, h, m),
            cu_seqlens=packing,
            backend=backend,
        )
        return self.out_proj(self.norm(y).flatten(-2)), MixerState(last)
