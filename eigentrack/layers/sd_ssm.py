"""SD-SSM: h_t = A(x_t) h_{t-1} + B x_t,  y_t = W norm(h_t),  A(x) = Σ_k softmax(S x)_k A_k with columns scaled to norm 1.

B batch  T time  H heads  n state size
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.matrix_dictionary import MatrixDictionary
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, matrix_eigenvalues, optional_convolution
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import require_number, require_positive
from eigentrack.ops import dense_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange

PAPER_POWER = 1.2  # p for most of the paper's tasks, 1.3 or 1.4 for the others


class SDSSM(LinearMixer):
    """SD-SSM (Terzić et al. 2024, arXiv 2412.19350): each token mixes the full matrices of a dictionary.

    With columns of norm |v|_1 = Σ|v_i| = 1 no eigenvalue of A has a modulus above 1: A leaves |h|_1 as it is or shrinks it. A
    range then asks for centre I + radius A, whose eigenvalues lie in the disk of which it is the diameter: A itself for
    [-1, 1]. The paper's norms |v|_p have p > 1, where nothing bounds a product; they are there for `eigenvalues=None`.

    It differs from the paper in this: the read-out's norm is an RMS norm, as everywhere in this library, not a layer norm;
    the matrices of the dictionary start near the identity, which forgets nothing, where the paper's start at random and need
    a million steps; and there may be several heads.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        state_size: n, the size of the state per head.
        dictionary: K, the number of matrices A_k per head.
        eigenvalues: a range, for columns of norm |v|_1 = 1; None: the columns have norm |v|_p = 1, and A has no bound.
        norm_power: p, with `eigenvalues=None` only; None there: 1.2.
        conv: the width of the short convolution; 0: no convolution.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        norm_eps: the eps of the norm.
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
        dictionary: int = 8,
        eigenvalues: EigenRange | None = EigenRange(-1, 1),
        norm_power: float | None = None,
        conv: int = 0,
        learn_initial_state: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        require_positive(d_model=d_model, heads=heads, state_size=state_size, dictionary=dictionary)
        convolution = optional_convolution(d_model, conv)
        super().__init__(d_model, backend, (heads, state_size), eigenvalues, learn_initial_state, convolution)
        self.heads = heads
        self.norm_power = _power(norm_power, eigenvalues)
        self.dictionary = MatrixDictionary(d_model, heads, state_size, dictionary)
        self.dictionary.matrices.data += torch.eye(state_size)
        self.in_proj = nn.Linear(d_model, heads * state_size, bias=False)
        self.norm = RMSNorm(state_size, eps=norm_eps)
        self.out_proj = nn.Linear(heads * state_size, d_model, bias=False)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        (x,), window, _ = self._convolve([Part(x)], state.window, packing)
        written = gate_precision(self.in_proj(x)).unflatten(-1, (*self.memory_shape, 1))
        (start,) = state.memory
        states, memory = dense_scan(
            self._matrices(x), written, initial_state=start[..., None], cu_seqlens=packing, backend=backend
        )
        y = self.out_proj(self.norm(states.squeeze(-1)).flatten(-2).to(x.dtype))
        return y, MixerState((memory.squeeze(-1),), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H n n"]:
        (x,), _, _ = self._convolve([Part(x)], self._state_for(x, state, cu_seqlens).window, cu_seqlens)
        return self._matrices(x)

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": matrix_eigenvalues(self.transitions(x, state, cu_seqlens))}

    def _matrices(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H n n"]:
        mixed = self.dictionary(x)
        columns = torch.linalg.vector_norm(mixed, ord=self.norm_power, dim=-2, keepdim=True)
        matrices = mixed / columns.clamp_min(torch.finfo(mixed.dtype).tiny)
        if self.eigenvalues is None or self.eigenvalues.ends == (-1, 1):
            return matrices
        low, high = self.eigenvalues.ends
        identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
        return (low + high) / 2 * identity + (high - low) / 2 * matrices


def _power(given: float | None, eigenvalues: EigenRange | None) -> float:
    """Return p of the columns' norm."""
    if given is None:
        return 1.0 if eigenvalues is not None else PAPER_POWER
    require_number(norm_power=given)
    if given < 1:
        raise ValueError(f"norm_power={given} must be at least 1")
    if eigenvalues is not None and given != 1:
        raise ValueError(
            f"norm_power={given} bounds no eigenvalue: leave it out for eigenvalues={eigenvalues}, or give null there"
        )
    return float(given)
