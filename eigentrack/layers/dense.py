"""Dense: S_t = A(x_t) S_{t-1} with a full matrix, S_0 = I; S_t, scaled into the unit ball, is read out linearly.

B batch  T time  H heads  n state size
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, matrix_eigenvalues, optional_convolution
from eigentrack.layers.validation import require_positive
from eigentrack.ops import dense_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange

START = 0.1  # approximate initial |A - I| in spectral norm: a product of 500 such matrices still has a norm below 100
MOST_FOR_W = 30  # squarings for W: each doubles its rounding errors, and 30 separate singular values that differ by 1e-9
LIMIT = 2.0**64  # the largest entry of S; as the read-out scales S into the unit ball, a large S matters only by its direction


class Dense(LinearMixer):
    """A linear RNN with a full transition matrix.

    Without a bound on A, products may exceed every float. A state beyond LIMIT is therefore scaled down, which does not change
    the output unless S shrinks by this factor again.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        state_size: n, the size of the matrices.
        eigenvalues: a range, for (complex) eigenvalues in the disk whose diameter it is: A = centre I + radius M with |M| ≤ 1;
            None: no bound on A, as in the paper's full-matrix baseline.
        conv: the width of the short convolution; 0: no convolution.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is the identity.
        bare: whether to read S as it is, without scaling it into the unit ball and without LIMIT.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    eigenvalues: EigenRange | None
    takes_none: ClassVar[bool] = True

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
        # A starts near the identity, which forgets nothing; a Gaussian n × n matrix has 2 √n times the norm of an entry
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
    """Return x / max(1, |x|), without overflow in the squares of large entries."""
    largest = x.detach().abs().amax(-1, keepdim=True).clamp_min(1.0)
    norm = largest * torch.linalg.vector_norm(x / largest, dim=-1, keepdim=True)
    return x / norm.clamp_min(1.0)


def spectral_norm(matrices: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch 1 1"]:
    """Return the largest singular value of each of many small matrices, using only matrix products.

    With G = MᵀM and p = 2^m, (tr Gᵖ)^{1/2p} lies between |M| and n^{1/2p} |M|. Squaring m times, and dividing by the trace t_k
    each time, computes it without overflow:

        |M|² = t_0 · t_1^{1/2} · t_2^{1/4} ···      and      Gᵖ / tr Gᵖ → W,   ∂|M| / ∂M = M W / |M|

    W is the projection onto the singular vectors of the largest value, divided by their number. The number of squarings is
    fixed, so that a CUDA graph can capture them; it cannot capture a test for convergence. Second derivatives come from the
    singular vectors, and exist where the singular values differ.
    """
    return _SpectralNorm.apply(matrices)


class _SpectralNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:
        kind, n = torch.finfo(matrices.dtype), matrices.shape[-1]
        squarings = math.ceil(2 - math.log2(kind.eps) + math.log2(max(1.0, math.log(n))))  # n^{1/2p} - 1 is below eps / 8
        exact = matrices.double()  # in float64, whose products neither autocast nor TF32 rounds
        power = exact.mT @ exact
        logarithm = torch.zeros_like(power[..., :1, :1])
        projection = power
        for k in range(squarings + 1):
            trace = power.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None].clamp_min(kind.tiny)
            logarithm = logarithm + trace.log() * 2.0**-k
            power = power / trace
            if k <= MOST_FOR_W:
                projection = power
            if k < squarings:
                power = power @ power
        norm = (logarithm / 2).exp().clamp_min(kind.tiny)
        ctx.save_for_backward((exact @ projection / norm).to(matrices.dtype), matrices)
        return norm.to(matrices.dtype)

    @staticmethod
    def backward(ctx: Any, dnorm: Tensor) -> Tensor:
        derivative, matrices = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient will be differentiated again
            left, _, right = torch.linalg.svd(matrices)
            derivative = left[..., :, :1] * right[..., :1, :]  # the derivative of a simple largest singular value, M W / |M|
        return dnorm * derivative
