"""S4D: λ = range(exp(Δ A)),  h_t = λ h_{t-1} + Δ u_t,  y_t = (Σ_n C h_t + D u_t) silu(z_t), channel by channel.

Unlike in Mamba, λ and Δ do not depend on the input.
With eigenvalues in a disk, λ = range(exp(Δ A)) e^{2πi Δ f}, one for each pair of the N.

B batch  T time  D channels  N state size  n: N, or N/2 pairs
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.initialisers import initial_time_step_bias
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, optional_convolution
from eigentrack.layers.rotating_gates import TurnProjection, check_pairs, gate_eigenvalues, gate_matrices
from eigentrack.layers.validation import require_positive
from eigentrack.ops import s4d
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange, Eigenvalues


class S4D(LinearMixer):
    """A linear RNN whose transitions do not depend on the input: if |λ| = 1, they depend on its length, not on its content.

    Real eigenvalues start at A = -1, -2, ...; complex ones start at A = -½ with the frequencies f = 0, ½, 1, ...

    Args:
        d_model: the width of the input and the output.
        state_size: N, the size of the state per channel.
        expand: the number of channels as a multiple of d_model.
        eigenvalues: the range or the disk of the eigenvalues.
        conv: the width of the short convolution; 0: no convolution.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    # declares support for disks, whose projection is TurnProjection; the angles themselves are constants of the layer
    projections: ClassVar[tuple[type[nn.Module], ...]] = (TurnProjection,)
    eigenvalues: Eigenvalues

    def __init__(
        self,
        d_model: int,
        *,
        state_size: int = 16,
        expand: int = 2,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
        conv: int = 0,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        require_positive(d_model=d_model, state_size=state_size, expand=expand)
        channels = expand * d_model
        convolution = optional_convolution(channels, conv)
        super().__init__(d_model, backend, (channels, state_size), eigenvalues, learn_initial_state, convolution)
        self.in_proj = nn.Linear(d_model, 2 * channels, bias=False)
        self.dt_bias = nn.Parameter(initial_time_step_bias(channels))
        if eigenvalues.turns:
            check_pairs(state_size=state_size)
            rate, frequency = torch.full((state_size // 2,), 0.5), torch.arange(state_size // 2) / 2
            self.frequency = nn.Parameter(frequency.repeat(channels, 1))  # turns per unit of time
        else:
            rate = torch.arange(1.0, state_size + 1)
            self.register_parameter("frequency", None)
        self.log_rate = nn.Parameter(rate.log().repeat(channels, 1))  # A = -exp(log_rate)
        self.read = nn.Parameter(torch.randn(channels, state_size))  # C
        self.skip = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        u, z = self.in_proj(x).chunk(2, dim=-1)
        (u,), window, _ = self._convolve([Part(u)], state.window, packing)
        dt, radial, turns = self._eigenvalue()
        y, memory = s4d(
            dt * u,
            a=radial,
            turns=turns,
            c=self.read,
            initial_state=state.memory[0],
            cu_seqlens=packing,
            backend=backend,
        )
        y = (y + self.skip * u) * F.silu(z)
        return self.out_proj(y.to(x.dtype)), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T D N N"]:
        _, radial, turns = self._eigenvalue()
        matrices = gate_matrices(radial, turns)
        return matrices.expand(*x.shape[:2], *matrices.shape)

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        _, radial, turns = self._eigenvalue()
        eigenvalue = gate_eigenvalues(radial, turns)
        return {"eigenvalue": eigenvalue.expand(*x.shape[:2], *eigenvalue.shape)}

    def _eigenvalue(self) -> tuple[Float[Tensor, " D"], Float[Tensor, "D n"], Float[Tensor, "D n"] | None]:
        """Return Δ, the real factor of λ, and the angle of λ in turns, or None."""
        dt = F.softplus(gate_precision(self.dt_bias))
        gate = torch.exp(-dt[:, None] * torch.exp(gate_precision(self.log_rate)))
        turns = None if self.frequency is None else dt[:, None] * gate_precision(self.frequency)
        return dt, self.eigenvalues.radial.eigenvalue(gate), turns
