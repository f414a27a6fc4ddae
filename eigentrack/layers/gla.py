"""Gated linear attention: S_t = diag(a_t) S_{t-1} + k_t v_tᵀ,  y_t = S_tᵀ q_t,  a_t = range(σ(W x_t)^(1/τ)) by key channel.

With eigenvalues in a disk, pairs of channels share a gate and turn by W' x_t + b' turns: diag(a_t) becomes diag(a_t) R_t.
In a polygon, gate and angle of a pair are those of the mean of its corners by the weights softmax(W' x_t + b').

B batch  T time  H heads  K key dim  V value dim  n gates a head: K, or K/2 pairs
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.rotating_gates import gate_eigenvalues, gate_matrices, optional_corners, optional_turns
from eigentrack.layers.short_convolution import optional_convolution
from eigentrack.layers.validation import head_width, require_positive, require_positive_number, require_two_numbers
from eigentrack.layers.widening import optional_widening
from eigentrack.ops import gated_linear
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part, unit
from eigentrack.spectrum import EigenPolygon, EigenRange, Eigenvalues

RANK, TEMPERATURE = 16, 16.0  # of the gates
SIGNED_TEMPERATURE = 1.0  # where eigenvalues can be negative
SIGNED_START = (1 + 2 ** (-1 / TEMPERATURE)) / 2  # as a share of the range: in [-1, 1] gates start at 0.958, as in [0, 1]


class GLA(LinearMixer):
    """`gate_temperature` τ: the higher, the flatter the gates. `first_gates`, two numbers: where those of the first and of the
    last channel of a head start, the others between them (in a disk, their moduli).

    Eigenvalues from 0 on: τ = 16, and all gates start near 2^(-1/16) of the range, so that little is forgotten at first.
    Eigenvalues below 0 ask for more: at τ = 16 one of -0.99 takes a logit of -85, and what should flip, as parity does, is
    hardly learned. There τ = 1, for which -5.3 is enough, and gates of [-1, 1] start at 0.958, as those of [0, 1] do; given τ
    alone, they start near 2^(-1/τ) of the range. Of a range that was widened, it is the one before that counts.

    `gate_rank`, 16 unless given, is that of W. A polygon has no such gates: its logits have the full rank.

    `writes=False`: tokens only turn the memory and let it fade, from the start that it has learnt; there are no keys and no
    values. What is counted is all that is held, and nothing adds up beside it.

    `sharp_after`: after so many steps of training a pair in a polygon takes one corner, not the mean of several. Trainings here
    say at which step they are; a loop of your own calls `model.at_step(number)`.

    `bare` leaves queries, keys, values and outputs as they are projected and read: no activation, norm, scale or output gate.
    """

    takes_disk = takes_polygon = True
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
        first_gates: Sequence[float] | None = None,
        eigenvalues: Eigenvalues = EigenRange(-1, 1),
        widened_from: EigenRange | None = None,
        conv: int = 0,
        key_norm: bool = False,
        learn_initial_state: bool = False,
        writes: bool = True,
        sharp_after: int | None = None,
        bare: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        key_dim = max(1, head_width(d_model, heads) // 2) if key_dim is None else key_dim
        value_dim = head_width(d_model, heads) if value_dim is None else value_dim
        if isinstance(eigenvalues, EigenPolygon):
            of_gates = {"gate_rank": gate_rank, "gate_temperature": gate_temperature, "first_gates": first_gates}
            for name, given in of_gates.items():
                if given is not None:
                    raise ValueError(f"{name}={given} is for gates in a range or a disk; {eigenvalues} has none, leave it out")
        gate_rank = RANK if gate_rank is None else gate_rank
        require_positive(heads=heads, key_dim=key_dim, value_dim=value_dim, gate_rank=gate_rank)
        if gate_temperature is not None:
            require_positive_number(gate_temperature=gate_temperature)
        if first_gates is not None:
            require_two_numbers(first_gates=first_gates)
        if not writes and not learn_initial_state:
            raise ValueError("writes=False needs learn_initial_state=True: a memory that starts empty would stay empty")
        if not writes and key_norm:
            raise ValueError("key_norm=True needs keys, and writes=False has none: leave one of them out")
        widths = [heads * key_dim, heads * key_dim, heads * value_dim][: 3 if writes else 1]  # q, k, v
        convolution = optional_convolution(sum(widths), conv)
        super().__init__(d_model, backend, (heads, key_dim, value_dim), eigenvalues, learn_initial_state, convolution)
        span = widened_from or self.eigenvalues.radial
        self.gate_temperature, first_gates = _steepness_and_start(span, gate_temperature, first_gates)
        self.heads, self.key_norm, self.bare = heads, key_norm, bare

        self.q_proj, *written = (nn.Linear(d_model, width, bias=False) for width in widths)
        self.k_proj: nn.Linear | None
        self.v_proj: nn.Linear | None
        self.k_proj, self.v_proj = written if writes else (None, None)
        if self.initial_memory is not None and not writes:
            nn.init.normal_(self.initial_memory)
        self.turn_proj = optional_turns(self.eigenvalues, d_model, heads, "key_dim", key_dim)
        self.corner_proj = optional_corners(self.eigenvalues, d_model, heads, "key_dim", key_dim, sharp_after)
        gates = heads * key_dim if self.turn_proj is None else self.turn_proj.out_features
        # drawn in a polygon, too, which drops them: seeds start where those of the published networks did
        narrow, gate_logits = nn.Linear(d_model, gate_rank, bias=False), nn.Linear(gate_rank, gates)
        self.gate_proj = nn.Sequential(narrow, gate_logits) if self.corner_proj is None else None
        if first_gates is not None:
            first, last = (_logit(span.gate(start), self.gate_temperature) for start in first_gates)
            gate_logits.bias.data.copy_(torch.linspace(first, last, gates // heads).repeat(heads))
        self.widening = optional_widening(widened_from, eigenvalues, d_model, heads)
        self.output_gate_proj = None if bare else nn.Linear(d_model, heads * value_dim, bias=False)
        self.norm = nn.Identity() if bare else RMSNorm(value_dim, eps=norm_eps)
        self.out_proj = nn.Linear(heads * value_dim, d_model, bias=False)

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
        """The real gates, and the angles where there are any."""
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


def _steepness_and_start(
    span: EigenRange, temperature: float | None, first_gates: Sequence[float] | None
) -> tuple[float, Sequence[float] | None]:
    """The temperature and the first gates, with what is not given filled in; None: as the bias is drawn."""
    if temperature is not None or span.low >= 0:
        return TEMPERATURE if temperature is None else temperature, first_gates
    start = span.low + SIGNED_START * (span.high - span.low)
    return SIGNED_TEMPERATURE, (start, start) if first_gates is None else first_gates


def _logit(gate: float, temperature: float) -> float:
    """Of which σ(logit)^(1/temperature) is the gate."""
    distance = -temperature * math.log(gate)
    return -distance - math.log(-math.expm1(-distance))
