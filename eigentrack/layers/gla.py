"""Gated linear attention: S_t = diag(a_t) S_{t-1} + k_t v_tᵀ,  y_t = S_tᵀ q_t,  a_t = range(σ(W x_t)^(1/τ)) by key channel.

With eigenvalues in a disk, pairs of channels share a gate and rotate by W' x_t + b' turns: diag(a_t) becomes diag(a_t) R_t.
In a polygon, the eigenvalue of a pair is the mean of the corners by the weights softmax(W' x_t + b').

B batch  T time  H heads  K key dim  V value dim  n gates per head: K, or K/2 pairs
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, optional_convolution
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.rotating_gates import (
    AngleProjection,
    GateProjection,
    gate_eigenvalues,
    gate_matrices,
    optional_projection,
)
from eigentrack.layers.validation import head_width, require_positive, require_positive_number
from eigentrack.layers.widening import optional_widening
from eigentrack.ops import gated_linear
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part, unit
from eigentrack.spectrum import EigenRange, Eigenvalues

RANK, TEMPERATURE = 16, 16.0  # defaults for the gates
SIGNED_TEMPERATURE = 1.0  # the default if eigenvalues can be negative
SIGNED_START = (
    1 + 2 ** (-1 / TEMPERATURE)
) / 2  # as a share of the range: gates of [-1, 1] start at 0.958, as those of [0, 1] do


class GLA(LinearMixer):
    """Gated linear attention.

    The temperature τ of the gates depends on the range, on the one before widening if there is one. For a range from 0 on, τ is
    16, and all gates start near 2^(-1/16) of the range, so that little is forgotten at first. With negative eigenvalues, τ is
    1: at τ = 16 the eigenvalue -0.99 needs a logit of -85, and tasks that must flip the state, such as parity, are hardly
    learned, while at τ = 1 a logit of -5.3 is enough; gates of [-1, 1] start at 0.958, as those of [0, 1] do. With a given
    `gate_temperature`, gates start near 2^(-1/τ) of the range. `start_gates` sets other initial values.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        key_dim: the width of a key; None: half of d_model / heads.
        value_dim: the width of a value; None: d_model / heads.
        gate_rank: the rank of the projection W to the gates; None: 16. A polygon has logits of full rank instead.
        gate_temperature: τ; the higher it is, the less gates depend on their logits. None: 16, or 1 with negative eigenvalues.
        eigenvalues: the set of the eigenvalues.
        widened_from: the range that the layer had before it was widened to `eigenvalues`; None: it was not widened.
        conv: the width of the short convolution; 0: no convolution.
        key_norm: whether keys are scaled to length 1.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        writes: whether tokens write to the memory. If not, there are no keys and values: tokens only rotate the learned initial
            memory and let it fade, so that the memory holds nothing but a count.
        bare: whether to leave out activations, norms and scales of queries, keys, values and outputs, and the output gate.
        norm_eps: the eps of the norm.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    projections: ClassVar[tuple[type[nn.Module], ...]] = (AngleProjection, GateProjection)
    eigenvalues: Eigenvalues

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        key_dim: int | None = None,
        value_dim: int | None = None,
        gate_rank: int | None = None,
        gate_temperature: float | None = None,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
        widened_from: EigenRange | None = None,
        conv: int = 0,
        key_norm: bool = False,
        learn_initial_state: bool = False,
        writes: bool = True,
        bare: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        key_dim = max(1, head_width(d_model, heads) // 2) if key_dim is None else key_dim
        value_dim = head_width(d_model, heads) if value_dim is None else value_dim
        require_positive(heads=heads, key_dim=key_dim, value_dim=value_dim)
        if not writes and not learn_initial_state:
            raise ValueError("writes=False needs learn_initial_state=True: a memory that starts empty would stay empty")
        if not writes and key_norm:
            raise ValueError("key_norm=True needs keys, and writes=False has none: leave one of them out")
        widths = [heads * key_dim, heads * key_dim, heads * value_dim][: 3 if writes else 1]  # q, k, v
        convolution = optional_convolution(sum(widths), conv)
        super().__init__(d_model, backend, (heads, key_dim, value_dim), eigenvalues, learn_initial_state, convolution)
        self.heads, self.key_norm, self.bare = heads, key_norm, bare

        self.q_proj, *written = (nn.Linear(d_model, width, bias=False) for width in widths)
        self.k_proj: nn.Linear | None
        self.v_proj: nn.Linear | None
        self.k_proj, self.v_proj = written if writes else (None, None)
        if self.initial_memory is not None and not writes:
            nn.init.normal_(self.initial_memory)
        self.turn_proj = optional_projection(AngleProjection, eigenvalues, d_model, heads, key_dim=key_dim)
        self.corner_proj = optional_projection(GateProjection, eigenvalues, d_model, heads, key_dim=key_dim)
        span = widened_from or eigenvalues.radial
        self.gate_temperature = _temperature(span) if gate_temperature is None else gate_temperature
        self.gate_proj: nn.Sequential | None = None
        if self.corner_proj is None:
            gate_rank = RANK if gate_rank is None else gate_rank
            require_positive(gate_rank=gate_rank)
            require_positive_number(gate_temperature=self.gate_temperature)
            gates = heads * (key_dim if self.turn_proj is None else key_dim // 2)
            self.gate_proj = nn.Sequential(nn.Linear(d_model, gate_rank, bias=False), nn.Linear(gate_rank, gates))
        else:
            for name, given in {"gate_rank": gate_rank, "gate_temperature": gate_temperature}.items():
                if given is not None:
                    raise ValueError(f"{name}={given} is for gates in a range or a disk; {eigenvalues} has none, leave it out")
        self.widening = optional_widening(widened_from, eigenvalues, d_model, heads)
        if gate_temperature is None and span.low < 0:
            start = span.low + SIGNED_START * (span.high - span.low)
            self.start_gates(start, start)
        self.output_gate_proj = None if bare else nn.Linear(d_model, heads * value_dim, bias=False)
        self.norm = nn.Identity() if bare else RMSNorm(value_dim, eps=norm_eps)
        self.out_proj = nn.Linear(heads * value_dim, d_model, bias=False)

    def start_gates(self, first: float, last: float) -> None:
        """Set the gates to start at `first` in the first and at `last` in the last channel of each head, the others in between.

        In a disk, these are the moduli of the eigenvalues.
        """
        if self.gate_proj is None:
            raise ValueError(f"initial gates=[{first}, {last}] are for gates in a range or a disk; {self.eigenvalues} has none")
        span = self.eigenvalues.radial if self.widening is None else self.widening.before
        low, high = (_logit(span.gate(start), self.gate_temperature) for start in (first, last))
        bias = self.gate_proj.get_parameter("1.bias")
        with torch.no_grad():
            bias.copy_(torch.linspace(low, high, len(bias) // self.heads).repeat(self.heads))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        projections = (self.q_proj, self.k_proj, self.v_proj)
        parts = [Part(project(x)) for project in projections if project is not None]
        silu = self.convolution is not None and not self.bare
        convolved, window, _ = self._convolve(parts, state.window, packing, silu=silu)
        q, *written = (part.unflatten(-1, (self.heads, -1)) for part in convolved)
        k, v = written or (torch.zeros_like(q), q.new_zeros(*q.shape[:-1], self.memory_shape[-1]))
        y, memory = gated_linear(
            q if self.bare else q * q.shape[-1] ** -0.5,
            unit(k) if self.key_norm else k,
            v,
            *self._gates(x),
            initial_state=state.memory[0],
            cu_seqlens=packing,
            backend=backend,
        )
        y = self.norm(y)
        if self.output_gate_proj is not None:
            y = y * F.silu(self.output_gate_proj(x)).unflatten(-1, (self.heads, -1))
        return self.out_proj(y.flatten(-2)), MixerState((memory,), window)

    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H K K"]:
        return gate_matrices(*self._gates(x))

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        return {"eigenvalue": gate_eigenvalues(*self._gates(x))}

    def _gates(self, x: Float[Tensor, "B T d"]) -> tuple[Float[Tensor, "B T H n"], Float[Tensor, "B T H n"] | None]:
        """Return the real gates, and the angles or None."""
        if self.corner_proj is not None:
            radial, turns = self.corner_proj(x)
            return radial.unflatten(-1, (self.heads, -1)), turns.unflatten(-1, (self.heads, -1))
        return self._radial(x), None if self.turn_proj is None else self.turn_proj(x).unflatten(-1, (self.heads, -1))

    def _radial(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H n"]:
        assert self.gate_proj is not None
        logits = gate_precision(self.gate_proj(x)).unflatten(-1, (self.heads, -1))
        tempered = self.gate_temperature != 1
        gate = torch.exp(F.logsigmoid(logits) / self.gate_temperature) if tempered else torch.sigmoid(logits)  # exactly ½ at 0
        if self.widening is None:
            return self.eigenvalues.radial.eigenvalue(gate)
        return self.widening.eigenvalue(
            self.widening.before.eigenvalue(gate), gate_precision(self.widening.shift(x))[..., None]
        )


def _temperature(span: EigenRange) -> float:
    return SIGNED_TEMPERATURE if span.low < 0 else TEMPERATURE


def _logit(gate: float, temperature: float) -> float:
    """Return the logit for which σ(logit)^(1/temperature) is the gate."""
    distance = -temperature * math.log(gate)
    return -distance - math.log(-math.expm1(-distance))
