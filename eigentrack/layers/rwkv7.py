"""RWKV-7: S_t = (diag(w_t) - (a_t ⊙ κ_t) κ_tᵀ) S_{t-1} + k_t v_tᵀ,  y_t = S_tᵀ r_t.

The memory decays by w, is erased along the unit vector κ at the rates a, one per channel, and k and v are written to it. All of
them come from x_t mixed with x_{t-1} (token shift); w, a and the output gate g come from low-rank projections:

    d = exp(-e^{-1/2} σ(·)),   w = low + (high - low) d,   a = (w - low) ⊙ s,   s = σ(·),   k = k̃ ⊙ (1 + (s - 1) ⊙ μ),
    out = W (g ⊙ (norm(y) + ((r ⊙ k)·ρ) v)).

All eigenvalues of A = low + (high - low) diag(d) (I - (s ⊙ κ) κᵀ) lie in the range: up to a change of basis, A is the symmetric
matrix diag(w) - c cᵀ with c = √a ⊙ κ, so its eigenvalues are real, at most the largest w, and at least low as a ≤ w - low. The
eigenvalue along κ can reach low: [0, 1] can forget, [-1, 1] can flip. In the published layer, w = d > 0.545 and a = s, so that
eigenvalues lie in (-0.455, 1); with [0, 1], this layer differs from it by the factor w in a. If the rates s differ between
channels, the norm of A can exceed 1.

The published layers also mix v with the v of the first layer. This is left out, as a mixer sees only its own input.

B batch  T time  S sequences  H heads  K key dim  V value dim  d model width
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision
from eigentrack.layers.validation import head_width, require_positive, require_positive_number
from eigentrack.ops import low_rank
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import unit
from eigentrack.spectrum import EigenRange

STREAMS = ("r", "w", "k", "v", "a", "g")  # each mixes a token with the previous one in its own proportions
FASTEST_DECAY = math.exp(-0.5)  # the largest -log d: d is above exp(-e^{-1/2}) = 0.545


class RWKV7(LinearMixer):
    """The RWKV-7 layer, with its eigenvalues in a range.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        rank: the rank of the projections to w, a and g.
        eigenvalues: the range of the eigenvalues.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        norm_eps: the eps of the output norm, per channel of a head.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

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
        nn.init.uniform_(to_decay.bias, -6.0, 1.0)  # memories from about 700 tokens down to 2
        self.w_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Tanh(), to_decay)
        self.a_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Linear(rank, d_model))
        self.g_proj = nn.Sequential(nn.Linear(d_model, rank, bias=False), nn.Sigmoid(), nn.Linear(rank, d_model, bias=False))
        self.erase_scale = nn.Parameter(torch.ones(d_model))  # scales k̃ before it is normalised to κ
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
        """Return w as "gate", a as "beta" and the eigenvalues, which are those of the symmetric matrix diag(w) - c cᵀ."""
        w, a, erase, _ = self._transition(self._streams(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)[0])
        c = a.sqrt() * erase
        symmetric = torch.diag_embed(w) - c[..., :, None] * c[..., None, :]
        return {"eigenvalue": torch.linalg.eigvalsh(symmetric.cpu()).to(x.device), "beta": a, "gate": w}

    def _streams(
        self, x: Float[Tensor, "B T d"], window: Tensor | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[dict[str, Float[Tensor, "B T d"]], Tensor]:
        assert window is not None  # initial_state made it
        before, window = _previous_token(x, window, cu_seqlens)
        return {name: x + (before - x) * share for name, share in zip(STREAMS, self.shift, strict=True)}, window

    def _transition(self, streams: dict[str, Tensor]) -> tuple[Float[Tensor, "B T H K"], ...]:
        """Return w, a, κ and k in the state's precision."""
        decay = torch.exp(-FASTEST_DECAY * torch.sigmoid(gate_precision(self.w_proj(streams["w"]))))
        rate = torch.sigmoid(gate_precision(self.a_proj(streams["a"])))
        key = gate_precision(self.k_proj(streams["k"]))
        w = self.eigenvalues.eigenvalue(decay)
        a = (w - self.eigenvalues.low) * rate
        k = key * (1 + (rate - 1) * self.write_mix)
        return self._by_head(w), self._by_head(a), unit(self._by_head(key * self.erase_scale)), self._by_head(k)

    def _by_head(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H K"]:
        return x.unflatten(-1, (self.heads, -1))


def _previous_token(
    x: Float[Tensor, "B T d"], window: Float[Tensor, "S 1 d"], cu_seqlens: Tensor | Packing | None
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "S 1 d"]]:
    """Return the token before each token, with the window before the first one, and the window for the tokens that follow."""
    window = window.to(x.dtype)
    packing = Packing.of(x, cu_seqlens)
    if packing is None:
        return torch.cat([window, x], dim=1)[:, :-1], x[:, -1:]
    bounds = packing.bounds
    return x.roll(1, dims=1).index_copy(1, bounds[:-1], window.transpose(0, 1)), x[0, bounds[1:] - 1, None]
