"""mLSTM: C_t = f_t C_{t-1} + e^{i_t} k_t v_tᵀ,  n_t = f_t n_{t-1} + e^{i_t} k_t,  y_t = C_tᵀ q_t / max(|n_t·q_t|, 1).

The forget gate is f_t = range(σ(f̃_t)).

B batch  T time  H heads  K key and value dim
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, optional_convolution
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import head_width
from eigentrack.ops import mlstm
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part, unit
from eigentrack.spectrum import EigenRange


class MLSTM(LinearMixer):
    """The mLSTM of xLSTM, with forget gates in a range.

    With a negative forget gate the normaliser n_t changes sign, too, and its terms can cancel: max(·, 1) then bounds y.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        eigenvalues: the range of the forget gate.
        conv: the width of the short convolution; 0: no convolution.
        key_norm: whether keys are scaled to length 1.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        norm_eps: the eps of the norm.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    eigenvalues: EigenRange

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        eigenvalues: EigenRange = EigenRange(-1, 1),
        conv: int = 4,
        key_norm: bool = False,
        learn_initial_state: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        width = head_width(d_model, heads)
        convolution = optional_convolution(2 * d_model, conv)
        super().__init__(d_model, backend, (heads, width, width), eigenvalues, learn_initial_state, convolution)
        self.heads, self.key_norm = heads, key_norm

        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.input_gate_proj = nn.Linear(d_model, heads)
        self.forget_gate_proj = nn.Linear(d_model, heads)
        nn.init.zeros_(self.input_gate_proj.bias)
        self.forget_gate_proj.bias.data = torch.linspace(3.0, 6.0, heads)  # long memories at first
        self.output_gate_proj = nn.Linear(d_model, d_model, bias=False)
        self.norm = RMSNorm(width, eps=norm_eps)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        heads, width, _ = self.memory_shape
        start = super().initial_state(sequences)
        normaliser, m = self._zeros(sequences, heads, width), self._zeros(sequences, heads)
        return MixerState((*start.memory, normaliser, m), start.window)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        parts = [Part(self.q_proj(x)), Part(self.k_proj(x))]
        convolved, window, _ = self._convolve(parts, state.window, packing, silu=self.convolution is not None)
        q, k = (part.unflatten(-1, (self.heads, -1)) for part in convolved)
        memory, normaliser, m = state.memory
        y, last = mlstm(
            q * q.shape[-1] ** -0.5,
            unit(k) if self.key_norm else k,
            self.v_proj(x).unflatten(-1, (self.heads, -1)),
            gate_precision(self.input_gate_proj(x)),
            self._forget_gate(x),
            initial_state=(memory, normaliser, m),
            cu_seqlens=packing,
            backend=backend,
        )
        y = self.norm(y).flatten(-2) * torch.sigmoid(self.output_gate_proj(x))
        return self.out_proj(y), MixerState(last, window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H K K"]:
        forget = self._forget_gate(x)
        return torch.diag_embed(forget[..., None].expand(*forget.shape, self.memory_shape[1]))

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": self._forget_gate(x)}

    def _forget_gate(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H"]:
        return self.eigenvalues.eigenvalue(torch.sigmoid(gate_precision(self.forget_gate_proj(x))))
