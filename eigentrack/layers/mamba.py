"""Mamba: a_t = range(exp(Δ_t A)),  h_t = a_t h_{t-1} + Δ_t B_t x_t,  y_t = (Σ_n C_t h_t + D x_t) silu(z_t), channel by channel.

With eigenvalues in a disk, pairs of the N share a gate and rotate by W' x_t + b' turns, the same in all channels: a_t becomes
a_t R_t.

B batch  T time  D channels  N state size  R rank of Δ  n gates per channel: N, or N/2 pairs
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.initialisers import initial_time_step_bias
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, optional_convolution
from eigentrack.layers.rotating_gates import AngleProjection, gate_eigenvalues, gate_matrices, optional_projection
from eigentrack.layers.validation import require_positive
from eigentrack.layers.widening import optional_widening
from eigentrack.ops import gated_linear, selective_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part, unit
from eigentrack.spectrum import EigenRange, Eigenvalues


class Mamba(LinearMixer):
    """The Mamba layer, with its eigenvalues in a chosen set.

    Args:
        d_model: the width of the input and the output.
        state_size: N, the size of the state per channel.
        expand: the number of channels as a multiple of d_model.
        dt_rank: the rank of the projection to Δ; None: d_model / 16, rounded up.
        eigenvalues: the set of the eigenvalues.
        widened_from: the range that the layer had before it was widened to `eigenvalues`; None: it was not widened.
        conv: the width of the short convolution; 0: no convolution.
        conv_bias: whether the convolution has a bias.
        key_norm: whether B_t is scaled to length 1.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    projections: ClassVar[tuple[type[nn.Module], ...]] = (AngleProjection,)
    eigenvalues: Eigenvalues

    def __init__(
        self,
        d_model: int,
        *,
        state_size: int = 16,
        expand: int = 2,
        dt_rank: int | None = None,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
        widened_from: EigenRange | None = None,
        conv: int = 4,
        conv_bias: bool = True,
        key_norm: bool = False,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        require_positive(d_model=d_model, state_size=state_size, expand=expand, dt_rank=dt_rank)
        channels = expand * d_model
        convolution = optional_convolution(channels, conv, conv_bias)
        super().__init__(d_model, backend, (channels, state_size), eigenvalues, learn_initial_state, convolution)
        self.key_norm = key_norm
        self._widths = [dt_rank, state_size, state_size]

        self.in_proj = nn.Linear(d_model, 2 * channels, bias=False)
        self.x_proj = nn.Linear(channels, sum(self._widths), bias=False)
        self.dt_proj = nn.Linear(dt_rank, channels)
        nn.init.uniform_(self.dt_proj.weight, -(dt_rank**-0.5), dt_rank**-0.5)
        self.dt_proj.bias.data = initial_time_step_bias(channels)
        self.turn_proj = optional_projection(AngleProjection, eigenvalues, channels, 1, state_size=state_size)
        gates = state_size if self.turn_proj is None else state_size // 2
        self.log_rate = nn.Parameter(torch.arange(1.0, gates + 1).log().repeat(channels, 1))  # A = -exp(log_rate)
        self.widening = optional_widening(
            widened_from, eigenvalues, dt_rank, channels
        )  # has the same input as the projection to Δ
        self.skip = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        u, z, window = self._inputs(x, state.window, packing)
        dt, b, c, features = self._selection(u)
        if self.widening is not None:  # selective_scan computes its eigenvalues itself and cannot widen them
            one_value = state.memory[0][..., None]  # [B, D, N, 1]
            y, memory = gated_linear(
                c[:, :, None].expand(*u.shape, -1),
                b[:, :, None].expand(*u.shape, -1),
                (dt * u)[..., None],
                self._radial(dt, features),
                initial_state=one_value,
                cu_seqlens=packing,
                backend=backend,
            )
            y = (y[..., 0] + self.skip * u) * F.silu(z)
            return self.out_proj(y.to(x.dtype)), MixerState((memory[..., 0],), window)
        y, memory = selective_scan(
            *(u, dt, b, c, z, self._turns(u)),
            log_decay=self._log_decay(),
            skip=self.skip,
            eigenvalues=self.eigenvalues.radial,
            initial_state=state.memory[0],
            cu_seqlens=packing,
            backend=backend,
        )
        return self.out_proj(y), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T D N N"]:
        return gate_matrices(*self._gates(x, state, cu_seqlens))

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": gate_eigenvalues(*self._gates(x, state, cu_seqlens))}

    def _gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[Float[Tensor, "B T D n"], Float[Tensor, "B T D n"] | None]:
        u, _, _ = self._inputs(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)
        dt, _, _, features = self._selection(u)
        radial, turns = self._radial(dt, features), self._turns(u)
        return radial, None if turns is None else turns[:, :, None].expand(radial.shape)

    def _turns(self, u: Float[Tensor, "B T D"]) -> Float[Tensor, "B T n"] | None:
        return None if self.turn_proj is None else self.turn_proj(u)

    def _inputs(
        self, x: Float[Tensor, "B T d"], window: Tensor | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"], Tensor | None]:
        u, z = self.in_proj(x).chunk(2, dim=-1)
        (u,), window, _ = self._convolve([Part(u)], window, cu_seqlens, silu=True)
        return u, z, window

    def _selection(
        self, u: Float[Tensor, "B T D"]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T N"], Float[Tensor, "B T N"], Float[Tensor, "B T R"]]:
        """Return Δ, B, C, and the R features that Δ is computed from."""
        features, b, c = self.x_proj(u).split(self._widths, dim=-1)
        # the bias is added in the state's precision: Δ must be able to vanish, so that eigenvalues reach the end of the range
        logits = gate_precision(features @ self.dt_proj.weight.mT) + self.dt_proj.bias
        return F.softplus(logits), unit(b) if self.key_norm else b, c, features

    def _radial(self, dt: Float[Tensor, "B T D"], features: Float[Tensor, "B T R"]) -> Float[Tensor, "B T D n"]:
        gate = torch.exp(dt[..., None] * self._log_decay())
        if self.widening is None:
            return self.eigenvalues.radial.eigenvalue(gate)
        shift = gate_precision(self.widening.shift(features))[..., None]  # one shift for all N of a channel
        return self.widening.eigenvalue(self.widening.before.eigenvalue(gate), shift)

    def _log_decay(self) -> Float[Tensor, "D n"]:
        return -torch.exp(gate_precision(self.log_rate))
