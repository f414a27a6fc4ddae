"""Dense: S_t = A(x_t) S_{t-1} with a full matrix, S_0 = I; S_t, scaled into the unit ball, is read out linearly.

B batch  T time  H heads  n state size
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, matrix_eigenvalues
from eigentrack.layers.short_convolution import optional_convolution
from eigentrack.layers.spectral_norm import spectral_norm
from eigentrack.layers.validation import require_positive
from eigentrack.ops import dense_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange

START = 0.1  # |A - I|, about, in spectral norm: the norm of a product of 500 such matrices is still below 100
LIMIT = 2.0**64  # of an entry of S; read into the unit ball, only the direction of what is larger than 1 matters


class Dense(LinearMixer):
    """`eigenvalues=None` is the paper's full-matrix baseline, without any bound on A.

    Products without a bound may outgrow every float: beyond LIMIT the state is scaled down, which no read-out can tell
    from S, unless S shrinks by that much again. A `bare` layer reads S as it is, and so has no limit.

    A range puts the (complex) eigenvalues into the disk whose diameter it is: A = centre I + radius M with |M| ≤ 1.
    """

    eigenvalues: EigenRange | None
    takes_none = True

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 1,
        state_size: int = 32,
        eigenvalues: EigenRange | None = None,
        conv: int = 0,
        learn_initial_state: bool = False,
        bare: bool = False,
        backend: str = "auto",
    ) -> None:
        require_positive(d_model=d_model, heads=heads, state_size=state_size)
        memory_shape = (heads, state_size, state_size)
        convolution = optional_convolution(d_model, conv)
        super().__init__(d_model, backend, memory_shape, eigenvalues, learn_initial_state, convolution)
        self.bare = bare
        self.matrix_proj = nn.Linear(d_model, heads * state_size**2)
        # starts near the identity, which forgets nothing; a Gaussian n × n matrix has the norm 2 √n times that of an entry
        nn.init.normal_(self.matrix_proj.weight, std=START / (2 * math.sqrt(state_size * d_model)))
        self.matrix_proj.bias.data = torch.eye(state_size).flatten().repeat(heads)
        self.out_proj = nn.Linear(heads * state_size**2, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        start = super().initial_state(sequences)
        (memory,) = start.memory
        identity = torch.eye(self.memory_shape[-1], dtype=memory.dtype, device=memory.device)
        return MixerState((memory + identity,), start.window)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        matrices, window = self._matrices(x, state.window, packing)
        limit = None if self.bare else LIMIT
        (start,) = state.memory
        states, memory = dense_scan(matrices, initial_state=start, cu_seqlens=packing, limit=limit, backend=backend)
        read = states.flatten(-2)
        if not self.bare:
            read = _into_unit_ball(read)
        return self.out_proj(read.flatten(-2).to(x.dtype)), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H n n"]:
        return self._matrices(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)[0]

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": matrix_eigenvalues(self.transitions(x, state, cu_seqlens))}

    def _matrices(
        self, x: Float[Tensor, "B T d"], window: Tensor | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[Float[Tensor, "B T H n n"], Tensor | None]:
        (x,), window, _ = self._convolve([Part(x)], window, cu_seqlens)
        matrices = gate_precision(self.matrix_proj(x)).unflatten(-1, self.memory_shape)
        if self.eigenvalues is None:
            return matrices, window
        matrices = matrices / spectral_norm(matrices).clamp_min(1.0)
        low, high = self.eigenvalues.low, self.eigenvalues.high
        identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
        return (low + high) / 2 * identity + (high - low) / 2 * matrices, window


def _into_unit_ball(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """x / max(1, |x|), also where the squares of the entries would overflow."""
    largest = x.detach().abs().amax(-1, keepdim=True).clamp_min(1.0)
    norm = largest * torch.linalg.vector_norm(x / largest, dim=-1, keepdim=True)
    return x / norm.clamp_min(1.0)
