"""Mamba-2: a_t = range(exp(Δ_t A)) for each head,  S_t = a_t S_{t-1} + B_t (Δ_t x_t)ᵀ,  y_t = S_tᵀ C_t + D x_t.

B batch  T time  H heads  N state size  P head dim  G groups of heads that share B and C
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.short_convolution import optional_convolution
from eigentrack.layers.time_step import initial_time_step_bias
from eigentrack.layers.unit_keys import unit
from eigentrack.layers.validation import require_positive
from eigentrack.layers.widening import optional_widening
from eigentrack.recurrence import gated_linear
from eigentrack.spectrum import EigenRange


class Mamba2(LinearMixer):
    eigenvalues: EigenRange

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        state_size: int = 64,
        expand: int = 2,
        groups: int = 1,
        eigenvalues: EigenRange = EigenRange(-1, 1),
        widened_from: EigenRange | None = None,
        conv: int = 4,
        conv_bias: bool = True,
        key_norm: bool = False,
        learn_initial_state: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        require_positive(d_model=d_model, heads=heads, state_size=state_size, expand=expand, groups=groups)
        channels = expand * d_model
        if channels % heads or heads % groups:
            raise ValueError(f"expand*d_model={channels} must be a multiple of heads={heads}, and heads of groups={groups}")
        convolved = [channels, groups * state_size, groups * state_size]  # x, B, C
        convolution = optional_convolution(sum(convolved), conv, conv_bias)
        memory_shape = (heads, state_size, channels // heads)
        super().__init__(d_model, backend, memory_shape, eigenvalues, learn_initial_state, convolution)
        self.heads, self.groups, self.key_norm = heads, groups, key_norm
        self._convolved = convolved

        self.in_proj = nn.Linear(d_model, channels + sum(convolved) + heads, bias=False)
        self.dt_bias = nn.Parameter(initial_time_step_bias(heads))
        self.log_rate = nn.Parameter(torch.arange(1.0, heads + 1).log())  # A = -exp(log_rate)
        self.widening = optional_widening(widened_from, eigenvalues, d_model, heads)
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(channels, eps=norm_eps)
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, cu_seqlens: Tensor | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        z, xbc, dt_logits = self.in_proj(x).split([self._convolved[0], sum(self._convolved), self.heads], dim=-1)
        xbc, window = self._convolve(xbc, state.window, cu_seqlens)
        values, b, c = F.silu(xbc).split(self._convolved, dim=-1)
        values = values.unflatten(-1, (self.heads, -1))
        b, c = (part.unflatten(-1, (self.groups, -1)).repeat_interleave(self.heads // self.groups, dim=-2) for part in (b, c))
        dt = self._time_step(dt_logits)
        y, memory = gated_linear(
            c,
            unit(b) if self.key_norm else b,
            dt[..., None] * values,
            self._eigenvalue(dt, x),
            initial_state=state.memory[0],
            cu_seqlens=cu_seqlens,
            backend=backend,
        )
        y = y + self.skip[:, None] * values
        return self.out_proj(self.norm(y.flatten(-2) * F.silu(z))), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | None = None
    ) -> Float[Tensor, "B T H N N"]:
        eigenvalue = self.gates(x, state, cu_seqlens)["eigenvalue"]
        return torch.diag_embed(eigenvalue[..., None].expand(*eigenvalue.shape, self.memory_shape[1]))

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": self._eigenvalue(self._time_step(self.in_proj(x)[..., -self.heads :]), x)}

    def _time_step(self, logits: Float[Tensor, "B T H"]) -> Float[Tensor, "B T H"]:
        return F.softplus(gate_precision(logits) + self.dt_bias)

    def _eigenvalue(self, dt: Float[Tensor, "B T H"], x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H"]:
        gate = torch.exp(-torch.exp(gate_precision(self.log_rate)) * dt)
        if self.widening is None:
            return self.eigenvalues.eigenvalue(gate)
        return self.widening.eigenvalue(self.widening.before.eigenvalue(gate), gate_precision(self.widening.shift(x)))
