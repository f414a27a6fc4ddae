"""PD-SSM: h_t = P(x_t) D(x_t) h_{t-1} + B x_t,  y_t = W h_t; each column of P is one-hot, D is diagonal.

A token mixes the matrices of a dictionary, and the largest entry of each column is where P has its 1:

    M(x) = Σ_k softmax(S x)_k M_k,    P(x)_ij = 1 if i = argmax_i M(x)_ij, else 0

Backwards P counts as the softmax of the columns of M. The entries of D lie in a range, or, complex, in a disk.

B batch  T time  H heads  N entries of the state  C = 1, or 2 for complex entries  M = C N numbers
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.matrix_dictionary import MatrixDictionary
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, matrix_eigenvalues, optional_convolution
from eigentrack.layers.rotating_gates import AngleProjection, gate_matrices, optional_projection
from eigentrack.layers.validation import require_positive
from eigentrack.ops import one_hot_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange, Eigenvalues

START = 0.98  # where the entries of D start, as a share of their range: little is forgotten at first


class PDSSM(LinearMixer):
    """PD-SSM (Terzić et al. 2025, arXiv 2509.22284): N states of any automaton fit into N entries of one layer.

    A product of such matrices has one entry per column again, so that a scan carries indices and values, not matrices.

    `eigenvalues` bounds the entries of D. The eigenvalues of P D are 0 and, for each cycle of P of length k, the k-th roots of
    the product of D along it: their moduli are at most the largest |d|, and their angles are free even if D is real.

    It differs from the paper in this: D is real by default, as ranges are in this library, and complex, as in the paper, in a
    disk; the logits of |d| and the angles are affine in the input instead of small networks, and |d| starts near the upper end
    of its range instead of the middle; there may be several heads; the skip connection and the norm after the read-out are
    left to the model. In the authors' code for automata P has one-hot rows, in their paper and here one-hot columns.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        state_size: N, the number of entries of the state per head; in a disk each is a complex number.
        dictionary: K, the number of matrices M_k per head.
        eigenvalues: the range or the disk of the entries of D.
        writes: whether tokens write to the memory. If not, there is no B, and tokens only move what the memory starts with.
        conv: the width of the short convolution; 0: no convolution.
        learn_initial_state: whether the memory before the first token is learned; otherwise its first entry is 1, the others 0.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    projections: ClassVar[tuple[type[nn.Module], ...]] = (AngleProjection,)
    eigenvalues: Eigenvalues

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 1,
        state_size: int = 32,
        dictionary: int = 8,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
        writes: bool = True,
        conv: int = 0,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        require_positive(d_model=d_model, heads=heads, state_size=state_size, dictionary=dictionary)
        turning = isinstance(eigenvalues, Eigenvalues) and eigenvalues.turns  # what is none is named by the base class
        numbers = (2 if turning else 1) * state_size
        convolution = optional_convolution(d_model, conv)
        super().__init__(d_model, backend, (heads, numbers), eigenvalues, learn_initial_state, convolution)
        self.heads = heads
        self.dictionary = MatrixDictionary(d_model, heads, state_size, dictionary)
        self.scale_proj = nn.Linear(d_model, heads * state_size)
        self.turn_proj = optional_projection(AngleProjection, eigenvalues, d_model, heads, numbers=numbers)
        self.in_proj = nn.Linear(d_model, heads * numbers, bias=False) if writes else None
        self.out_proj = nn.Linear(heads * numbers, d_model, bias=False)
        span = eigenvalues.radial
        start = span.low + START * (span.high - span.low)
        self.start_gates(start, start)

    def start_gates(self, first: float, last: float) -> None:
        """Set the moduli of D to start at `first` in the first and at `last` in the last entry of each head, others between."""
        low, high = (_logit(self.eigenvalues.radial.gate(start)) for start in (first, last))
        with torch.no_grad():
            self.scale_proj.bias.copy_(torch.linspace(low, high, len(self.scale_proj.bias) // self.heads).repeat(self.heads))

    def initial_state(self, sequences: int) -> MixerState:
        start = super().initial_state(sequences)
        (memory,) = start.memory
        first = (torch.arange(self.memory_shape[1], device=memory.device) == 0).to(memory.dtype)
        return MixerState((memory + first,), start.window)

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        (x,), window, _ = self._convolve([Part(x)], state.window, packing)
        mixed, (start,) = self.dictionary(x), state.memory
        states, memory = one_hot_scan(
            self._radial(x),
            None if self.in_proj is None else gate_precision(self.in_proj(x)).unflatten(-1, (self.heads, -1)),
            mixed.detach().argmax(-2),
            turns=self._turns(x),
            softmax=mixed.softmax(-2),
            initial_state=start,
            cu_seqlens=packing,
            backend=backend,
        )
        return self.out_proj(states.flatten(-2).to(x.dtype)), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H M M"]:
        x = self._convolved(x, state, cu_seqlens)
        rows, scales = self.dictionary(x).argmax(-2), gate_matrices(self._radial(x), self._turns(x))
        entries, numbers = rows.shape[-1], scales.shape[-1]
        p = (torch.arange(entries, device=x.device)[:, None] == rows[..., None, :]).to(scales.dtype)
        identity = torch.eye(numbers // entries, dtype=scales.dtype, device=x.device)
        return torch.kron(p, identity) @ scales

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        eigenvalue = matrix_eigenvalues(self.transitions(x, state, cu_seqlens))
        return {"eigenvalue": eigenvalue, "gate": self._radial(self._convolved(x, state, cu_seqlens))}

    def _convolved(
        self, x: Float[Tensor, "B T d"], state: MixerState | None, cu_seqlens: Tensor | Packing | None
    ) -> Float[Tensor, "B T d"]:
        (x,), _, _ = self._convolve([Part(x)], self._state_for(x, state, cu_seqlens).window, cu_seqlens)
        return x

    def _radial(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H N"]:
        share = torch.sigmoid(gate_precision(self.scale_proj(x))).unflatten(-1, (self.heads, -1))
        return self.eigenvalues.radial.eigenvalue(share)

    def _turns(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H N"] | None:
        return None if self.turn_proj is None else self.turn_proj(x).unflatten(-1, (self.heads, -1))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
