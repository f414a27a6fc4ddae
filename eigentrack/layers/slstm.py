"""sLSTM, the non-linear baseline with exponential gates; equations in `ops/slstm/reference.py`.

B batch  T time  H heads  D head dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.lstm import RecurrentGates
from eigentrack.layers.mixer import Mixer, MixerState
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import head_width
from eigentrack.ops import slstm
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.slstm.op import SLSTM as SLSTM_OP


class SLSTM(Mixer):
    """The sLSTM layer of xLSTM.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        norm_eps: the eps of the norm.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    def __init__(self, d_model: int, *, heads: int = 4, norm_eps: float = 1e-5, backend: str = "auto") -> None:
        super().__init__(d_model, backend)
        self.heads, self.width = heads, head_width(d_model, heads)
        self.gates = RecurrentGates(d_model, heads)
        self.norm = RMSNorm(self.width, eps=norm_eps)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    @property
    def loops_over_time(self) -> bool:
        """False if the kernel runs, which goes through all tokens in one launch."""
        recurrent, state = self.gates.recurrent, self.initial_state(1).memory
        token = recurrent.new_empty(1, 1, *recurrent.shape[:3])
        return not SLSTM_OP.runs_kernel(self.backend, token, recurrent=recurrent, initial_state=state)

    def initial_state(self, sequences: int) -> MixerState:
        zeros = self._zeros(sequences, self.heads, self.width)
        # m = -inf: an empty memory has no scale, so that the first input sets it
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
