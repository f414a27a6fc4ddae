"""RWKV-7: S_t = (diag(w_t) - (a_t ⊙ κ_t) κ_tᵀ) S_{t-1} + k_t v_tᵀ,  y_t = S_tᵀ r_t.

κ is a unit vector along which the memory is erased, channel by channel at the rates a; w decays, k and v are written. All
come from x_t mixed with x_{t-1} (token shift), w, a and the output gate g by low-rank projections:

    d = exp(-e^{-1/2} σ(·)),   w = low + (high - low) d,   a = (w - low) ⊙ s,   s = σ(·),   k = k̃ ⊙ (1 + (s - 1) ⊙ μ),
    out = W (g ⊙ (norm(y) + ((r ⊙ k)·ρ) v)).

What the range holds: A = low + (high - low) diag(d) (I - (s ⊙ κ) κᵀ). Up to a change of basis A is diag(w) - c cᵀ, c = √a ⊙ κ,
which is symmetric; so all eigenvalues are real, none above the largest w, and none below low as a ≤ w - low. The one along κ
reaches low: [0, 1] forgets, [-1, 1] flips. As published, w = d > 0.545 and a = s, which puts the eigenvalues in (-0.455, 1); in
[0, 1] ours differs by the factor w in a. Where the rates s differ between channels the norm of A can exceed 1.

The published layers mix v with the first layer's v. A mixer sees its own input alone: left out.

B batch  T time  H heads  K key dim  V value dim  d model width
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision
from eigentrack.layers.token_shift import previous_token
from eigentrack.layers.validation import head_width, require_positive, require_positive_number
from eigentrack.ops import low_rank
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import unit
from eigentrack.spectrum import EigenRange

STREAMS = ("r", "w", "k", "v", "a", "g")  # each mixes a token with the one before it in shares of its own
FASTEST_DECAY = math.exp(-0.5)  # of log w: exp(-e^{-1/2}) = 0.545


class RWKV7(LinearMixer):
    """`rank` is that of the projections to w, a and g."""

    eigenvalues: EigenRange

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        rank: int = 32,
        eigenvalues: EigenRange = EigenRange(-1, 1),
        learn_initial_state: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        width = head_width(d_model, heads)
        if width < 2:
            raise ValueError(f"heads={heads} leaves 1 of d_model={d_model} channels to each, and its norm needs 2: take fewer")
        require_positive(rank=rank)
        super().__init__(d_model, backend, (heads, width, width), eigenvalues, learn_initial_state, convolution=None)
        require_positive_number(norm_eps=norm_eps)
        self.heads = heads
        self.shift = nn.Parameter(torch.rand(len(STREAMS), d_model))
        self.r_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        to_decay = nn.Linear(rank, d_model)
        nn.init.uniform_(to_decay.bias, -6.0, 1.0)  # from a memory of some 700 tokens to one of two
        self.w_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Tanh(), to_decay)
        self.a_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Linear(rank, d_model))
        self.g_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Sigmoid(), nn.Linear(rank, d_model, bias=False))
        self.erase_scale = nn.Parameter(torch.ones(d_model))  # of k̃, before it becomes the unit vector κ
        self.write_mix = nn.Parameter(torch.ones(d_model))  # μ
        self.bonus = nn.Parameter(torch.zeros(heads, width))  # ρ
        self.norm = nn.GroupNorm(heads, d_model, eps=width * norm_eps)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        return MixerState(super().initial_state(sequences).memory, self.shift.new_zeros(sequences, 1, self.d_model))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        streams, window = self._streams(x, state.window, packing)
        r, v = (self._by_head(project(streams[name])) for name, project in (("r", self.r_proj), ("v", self.v_proj)))
        w, a, erase, k = self._transition(streams)
        nothing = torch.zeros_like(k)
        y, memory = low_rank(
            r,
            torch.stack([erase, nothing], dim=3),
            torch.stack([a * erase, k], dim=3),
            torch.stack([torch.zeros_like(v), v], dim=3),
            w,
            initial_state=state.memory[0],
            cu_seqlens=packing,
            backend=backend,
        )
        y = self.norm(y.flatten(0, 1).flatten(1)).view_as(x)
        bonus = (r * k * self.bonus).sum(-1, keepdim=True).to(v.dtype) * v
        return self.out_proj(self.g_proj(streams["g"]) * (y + bonus.flatten(-2))), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H K K"]:
        w, a, erase, _ = self._transition(self._streams(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)[0])
        return torch.diag_embed(w) - (a * erase)[..., :, None] * erase[..., None, :]

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        """ "gate" is w, "beta" a. The eigenvalues are those of the symmetric twin diag(w) - c cᵀ."""
        w, a, erase, _ = self._transition(self._streams(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)[0])
        c = a.sqrt() * erase
        symmetric = torch.diag_embed(w) - c[..., :, None] * c[..., None, :]
        return {"eigenvalue": torch.linalg.eigvalsh(symmetric.cpu()).to(x.device), "beta": a, "gate": w}

    def _streams(
        self, x: Float[Tensor, "B T d"], window: Tensor | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[dict[str, Float[Tensor, "B T d"]], Tensor]:
        assert window is not None  # initial_state made it
        before, window = previous_token(x, window, cu_seqlens)
        return {name: x + (before - x) * share for name, share in zip(STREAMS, self.shift, strict=True)}, window

    def _transition(self, streams: dict[str, Tensor]) -> tuple[Float[Tensor, "B T H K"], ...]:
        """w, a, κ and k, in the state's precision."""
        decay = torch.exp(-FASTEST_DECAY * torch.sigmoid(gate_precision(self.w_proj(streams["w"]))))
        rate = torch.sigmoid(gate_precision(self.a_proj(streams["a"])))
        key = gate_precision(self.k_proj(streams["k"]))
        w = self.eigenvalues.eigenvalue(decay)
        a = (w - self.eigenvalues.low) * rate
        k = key * (1 + (rate - 1) * self.write_mix)
        return self._by_head(w), self._by_head(a), unit(self._by_head(key * self.erase_scale)), self._by_head(k)

    def _by_head(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H K"]:
        return x.unflatten(-1, (self.heads, -1))
