"""Mamba-2: a_t = range(exp(Δ_t A)) for each head,  S_t = a_t S_{t-1} + B_t (Δ_t x_t)ᵀ,  y_t = S_tᵀ C_t + D x_t.

With eigenvalues in a disk, pairs of the N rotate by W' x_t + b' turns: a_t becomes a_t R_t.

B batch  T time  H heads  N state size  P head dim  G groups of heads that share B, C and angles
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.initialisers import initial_time_step_bias
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, optional_convolution
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.rotating_gates import AngleProjection, gate_eigenvalues, gate_matrices, optional_projection
from eigentrack.layers.validation import require_positive
from eigentrack.layers.widening import optional_widening
from eigentrack.ops import gated_linear
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part, unit
from eigentrack.spectrum import EigenRange, Eigenvalues


class Mamba2(LinearMixer):
    """The Mamba-2 layer, with its eigenvalues in a chosen set.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        state_size: N, the size of the state per channel.
        expand: the number of channels as a multiple of d_model.
        groups: G, the number of groups of heads that share B, C and angles.
        eigenvalues: the set of the eigenvalues.
        widened_from: the range that the layer had before it was widened to `eigenvalues`; None: it was not widened.
        conv: the width of the short convolution; 0: no convolution.
        conv_bias: whether the convolution has a bias.
        key_norm: whether B_t is scaled to length 1.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        norm_eps: the eps of the norm.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    projections: ClassVar[tuple[type[nn.Module], ...]] = (AngleProjection,)
    eigenvalues: Eigenvalues

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        state_size: int = 64,
        expand: int = 2,
        groups: int = 1,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
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
        self.turn_proj = optional_projection(AngleProjection, eigenvalues, d_model, groups, state_size=state_size)
        self.widening = optional_widening(widened_from, eigenvalues, d_model, heads)
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(channels, eps=norm_eps)
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        z, xbc, dt_logits = self.in_proj(x).split([self._convolved[0], sum(self._convolved), self.heads], dim=-1)
        (xbc,), window, _ = self._convolve([Part(xbc)], state.window, packing, silu=True)
        values, b, c = xbc.split(self._convolved, dim=-1)
        values = values.unflatten(-1, (self.heads, -1))
        b, c = (self._for_heads(part) for part in (b, c))
        dt = self._time_step(dt_logits)
        y, memory = gated_linear(
            c,
            unit(b) if self.key_norm else b,
            dt[..., None] * values,
            self._radial(dt, x),
            self._turns(x),
            initial_state=state.memory[0],
            cu_seqlens=packing,
            backend=backend,
        )
        y = y + self.skip[:, None] * values
        return self.out_proj(self.norm(y.flatten(-2) * F.silu(z))), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H N N"]:
        return gate_matrices(*self._all_gates(x))

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        radial, turns = self._all_gates(x)
        return {"eigenvalue": radial[..., 0] if turns is None else gate_eigenvalues(radial, turns)}

    def _all_gates(self, x: Float[Tensor, "B T d"]) -> tuple[Float[Tensor, "B T H n"], Float[Tensor, "B T H n"] | None]:
        """Return the gates and the angles, or None, for each of the N or for each pair of them."""
        radial, turns = self._radial(self._time_step(self.in_proj(x)[..., -self.heads :]), x), self._turns(x)
        return radial[..., None].expand(*radial.shape, self.memory_shape[1] if turns is None else turns.shape[-1]), turns

    def _turns(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H n"] | None:
        return None if self.turn_proj is None else self._for_heads(self.turn_proj(x))

    def _for_heads(self, x: Float[Tensor, "B T Gn"]) -> Float[Tensor, "B T H n"]:
        return x.unflatten(-1, (self.groups, -1)).repeat_interleave(self.heads // self.groups, dim=-2)

    def _time_step(self, logits: Float[Tensor, "B T H"]) -> Float[Tensor, "B T H"]:
        return F.softplus(gate_precision(logits) + self.dt_bias)

    def _radial(self, dt: Float[Tensor, "B T H"], x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H"]:
        gate = torch.exp(-torch.exp(gate_precision(self.log_rate)) * dt)
        if self.widening is None:
            return self.eigenvalues.radial.eigenvalue(gate)
        return self.widening.eigenvalue(self.widening.before.eigenvalue(gate), gate_precision(self.widening.shift(x)))
