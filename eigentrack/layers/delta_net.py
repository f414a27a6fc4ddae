"""DeltaNet: S ← g_t S;  S ← (I - b_tj k_tj k_tjᵀ) S + b_tj k_tj v_tjᵀ for j = 1..n;  y_t = S_tᵀ q_t.

With n = 1 this is DeltaNet without a gate and gated DeltaNet with one; with n > 1 it is DeltaProduct. With one gate per key
channel, diag(g_t) S, it is KDA: A(x_t) is a diagonal matrix followed by n Householder factors. A gate in a disk, g_t R_t S,
also rotates pairs of key channels.

B batch  T time  H heads  n Householder factors per token  K key dim  V value dim  P pairs of key channels
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.initialisers import bias_of_step, initial_time_step_bias
from eigentrack.layers.mixer import LinearMixer, MixerState, gate_precision, matrix_eigenvalues, optional_convolution
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.rotating_gates import TurnProjection, can_serve, gate_matrices, optional_projection
from eigentrack.layers.validation import head_width, require_positive
from eigentrack.layers.widening import optional_widening
from eigentrack.ops import delta_rule
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange, Eigenvalues

FIRST_TURNS = 0.1  # initial angle weights relative to other layers: about 6 degrees per token for inputs of variance one


class DeltaNet(LinearMixer):
    """DeltaNet, gated DeltaNet, DeltaProduct or KDA, depending on the options.

    A gate in a disk also rotates: before the Householder factors, pairs of key channels rotate by W' x_t + b' turns. A rotation
    then needs no pair of reflections at an angle, and one number, the angle, is all that a cyclic group asks for.

    With `gate_per_channel` and the range [-1, 1] a gate can be a reflection, and together with one factor a rotation: A(x_t)
    then has complex eigenvalues, of modulus at most 1.

    The eigenvalue along a key starts in the middle of its range unless `start_eigenvalue` sets it: at ½ in [0, 1], and at 0 in
    [-1, 1], where every token replaces all that is stored under its key. Gates start as in Mamba-2 and forget 0.1 to 80 % per
    token unless `start_gates` sets them.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        key_dim: the width of a key; None: d_model / heads.
        value_dim: the width of a value; None: d_model / heads.
        householders: n, the number of Householder factors per token.
        eigenvalues: the range of each factor's eigenvalue along its key.
        widened_from: the range that the layer had before it was widened to `eigenvalues`; None: it was not widened.
        gate: the range or the disk of the gate; None: no gate.
        gate_per_channel: whether every key channel (in a disk every pair) has its own gate; otherwise one per head.
        conv: the width of the short convolution; 0: no convolution.
        output_gate: whether the output is multiplied by a gate that depends on the input.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero.
        bare: whether to leave out activations, norms and scales of queries, keys, values and outputs, so that weights that
            are set instead of learned can be exact.
        norm_eps: the eps of the norm.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    has_beta: ClassVar[bool] = True
    eigenvalues: EigenRange

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        key_dim: int | None = None,
        value_dim: int | None = None,
        householders: int = 1,
        eigenvalues: EigenRange = EigenRange(-1, 1),
        widened_from: EigenRange | None = None,
        gate: Eigenvalues | None = None,
        gate_per_channel: bool = False,
        conv: int = 4,
        output_gate: bool = False,
        learn_initial_state: bool = False,
        bare: bool = False,
        norm_eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        key_dim = head_width(d_model, heads) if key_dim is None else key_dim
        value_dim = head_width(d_model, heads) if value_dim is None else value_dim
        require_positive(heads=heads, key_dim=key_dim, value_dim=value_dim, householders=householders)
        if gate is not None and (not can_serve((TurnProjection,), type(gate)) or gate.radial.overshoot):
            raise ValueError(f"gate={gate!r} must be an EigenRange without overshoot, an EigenDisk, or None for no gate")
        if gate_per_channel and gate is None:
            raise ValueError("gate_per_channel=True needs the gate's range, such as gate=EigenRange(0, 1)")
        widths = [heads * key_dim, heads * householders * key_dim, heads * householders * value_dim]  # q, k, v
        convolution = optional_convolution(sum(widths), conv)
        super().__init__(d_model, backend, (heads, key_dim, value_dim), eigenvalues, learn_initial_state, convolution)
        self.heads, self.key_dim, self.value_dim, self.householders = heads, key_dim, value_dim, householders
        self.gate, self.gate_per_channel, self.bare = gate, gate_per_channel, bare

        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, width, bias=False) for width in widths)
        self.beta_proj = nn.Linear(d_model, heads * householders, bias=False)
        self.widening = optional_widening(widened_from, eigenvalues, d_model, heads * householders, overshoots=True)
        self.turn_proj: TurnProjection | None = None
        if gate is not None:
            self.turn_proj = optional_projection(TurnProjection, gate, d_model, heads, key_dim=key_dim)
        if self.turn_proj is not None:
            self.turn_proj.bias.data.zero_()
            self.turn_proj.weight.data *= (
                FIRST_TURNS  # small angles at first, so that a key still matches what was written under it
            )
        if gate is not None:
            channels = key_dim if self.turn_proj is None else key_dim // 2  # the two channels of a pair share a gate
            gates = heads * channels if gate_per_channel else heads
            # a projection of rank K to the K gates of each head, as in KDA
            self.gate_down_proj = nn.Linear(d_model, key_dim, bias=False) if gate_per_channel else None
            self.gate_proj = nn.Linear(key_dim if gate_per_channel else d_model, gates, bias=False)
            self.gate_log_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
            self.gate_bias = nn.Parameter(initial_time_step_bias(gates))
        self.output_gate_proj = nn.Linear(d_model, heads * value_dim, bias=False) if output_gate else None
        self.norm = nn.Identity() if bare else RMSNorm(value_dim, eps=norm_eps)
        self.out_proj = nn.Linear(heads * value_dim, d_model, bias=False)

    def start_eigenvalue(self, eigenvalue: float) -> None:
        """Add a bias to the logits of b that makes the eigenvalue along every key start at `eigenvalue`, for an input of 0."""
        start = (self.eigenvalues if self.widening is None else self.widening.before).beta_logit(eigenvalue)
        self.beta_proj.bias = nn.Parameter(self.beta_proj.weight.new_full((self.beta_proj.out_features,), start))

    def start_gates(self, first: float, last: float) -> None:
        """Set the gates to start at `first` in the first and at `last` in the last head (or channel of each head).

        The other gates start in between.
        """
        if self.gate is None:
            raise ValueError(f"initial gates=[{first}, {last}] need the gate's range, such as gate=EigenRange(0, 1)")
        slow, fast = (math.log(-math.log(self.gate.radial.gate(start))) for start in (first, last))
        count = len(self.gate_bias) // self.heads if self.gate_per_channel else self.heads
        with torch.no_grad():
            self.gate_log_rate.zero_()
            self.gate_bias.copy_(bias_of_step(torch.linspace(slow, fast, count).exp()).repeat(len(self.gate_bias) // count))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        q, k, v, beta, window = self._factors(x, state.window, packing)
        y, memory = delta_rule(
            *(q, k, v, beta, self._gate(x), self._turns(x)),
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
        _, k, _, beta, _ = self._factors(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)
        k, gate, turns = gate_precision(k), self._gate(x), self._turns(x)
        product = torch.eye(self.key_dim, dtype=k.dtype, device=k.device)
        if gate is not None:
            gates = self.key_dim if turns is None else turns.shape[-1]
            product = gate_matrices(gate if self.gate_per_channel else gate[..., None].expand(*gate.shape, gates), turns)
        for k_j, b_j in zip(k.unbind(3), beta.unbind(3), strict=True):
            stored = (k_j[..., None] * product).sum(
                -2, keepdim=True
            )  # kᵀ product; a sum, as autocast would round the inputs of `@`
            product = product - (b_j[..., None] * k_j)[..., None] * stored
        return product

    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        """Return the eigenvalues of A(x_t), b, and the gate if there is one.

        With the keys as the rows of K and D = diag(b), the product of the factors is I - Kᵀ T K, T = (I + D tril(KKᵀ, -1))⁻¹ D.
        Its eigenvalues are 1 and those of the n by n matrix I - T KKᵀ, of which the latter are returned, times the gate. With a
        gate per channel, or one that rotates, all K eigenvalues of A(x_t) are returned.
        """
        _, k, _, beta, _ = self._factors(x, self._state_for(x, state, cu_seqlens).window, cu_seqlens)
        gate = self._gate(x)
        if gate is not None and (self.gate_per_channel or self.turn_proj is not None):
            return {"eigenvalue": matrix_eigenvalues(self.transitions(x, state, cu_seqlens)), "beta": beta, "gate": gate}
        k = gate_precision(k)
        with torch.autocast(k.device.type, enabled=False):  # with rounded keys, 1 - b|k|² could leave the range
            meetings = beta[..., None] * (k @ k.mT)  # D KKᵀ, [B, T, H, n, n]
        eigenvalue = 1 - meetings[..., 0]
        if self.householders > 1:
            identity = torch.eye(self.householders, dtype=meetings.dtype, device=meetings.device)
            product = torch.linalg.solve_triangular(meetings.tril(-1), meetings, upper=False, unitriangular=True)
            eigenvalue = matrix_eigenvalues(identity - product)
        if gate is None:
            return {"eigenvalue": eigenvalue, "beta": beta}
        return {"eigenvalue": gate[..., None] * eigenvalue, "beta": beta, "gate": gate}

    def _factors(
        self, x: Float[Tensor, "B T d"], window: Tensor | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[
        Float[Tensor, "B T H K"],
        Float[Tensor, "B T H n K"],
        Float[Tensor, "B T H n V"],
        Float[Tensor, "B T H n"],
        Tensor | None,
    ]:
        """Return q, k, v, b and the new window of the convolution.

        b is corrected for the rounding of |k|², as the eigenvalue 1 - b|k|² must stay in its range: in bfloat16 |k|² is off by
        up to 0.8 %, and with the eigenvalue -1.016 the state explodes within a thousand tokens.
        """
        unit_rows = 0 if self.bare else self.key_dim
        parts = [
            Part(self.q_proj(x), unit_rows, 1.0 if self.bare else self.key_dim**-0.5),
            Part(self.k_proj(x), unit_rows),
            Part(self.v_proj(x)),
        ]
        (q, k, v), window, (_, rounding, _) = self._convolve(parts, window, cu_seqlens, silu=not self.bare)
        beta = self._beta(x) if rounding is None else self._beta(x) * rounding
        factors = (self.heads, self.householders)
        return (
            q.unflatten(-1, (self.heads, self.key_dim)),
            k.unflatten(-1, (*factors, self.key_dim)),
            v.unflatten(-1, (*factors, self.value_dim)),
            beta.unflatten(-1, factors),
            window,
        )

    def _beta(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T Hn"]:
        logits = gate_precision(self.beta_proj(x))
        if self.widening is None:
            return self.eigenvalues.beta(logits)
        before = self.widening.before.beta(logits)
        return self.widening.beta(before, gate_precision(self.widening.shift(x)))

    def _gate(
        self, x: Float[Tensor, "B T d"]
    ) -> Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"] | None:
        if self.gate is None:
            return None
        narrow = x if self.gate_down_proj is None else self.gate_down_proj(x)
        step = F.softplus(gate_precision(self.gate_proj(narrow)) + self.gate_bias)
        rate = torch.exp(gate_precision(self.gate_log_rate))
        if self.gate_per_channel:
            step, rate = step.unflatten(-1, (self.heads, -1)), rate[:, None]
        return self.gate.radial.eigenvalue(torch.exp(-rate * step))

    def _turns(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B T H P"] | None:
        return None if self.turn_proj is None else self.turn_proj(x).unflatten(-1, (self.heads, -1))
