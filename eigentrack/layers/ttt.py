"""TTT-Linear: W_t = W_{t-1} - η_t ∇ℓ(W_base; k_t, v_t),  ℓ = ½|f(k) - v|²,  f(x) = x + norm(Wᵀx + c),  y_t = f_t(q_t).

The memory is a linear model with a normalised, residual output, which is trained by one step of gradient descent per token. The
gradients of all b tokens of a mini-batch are taken at W_base, the model before the mini-batch, so that they can be computed
together. c follows the same rule as W. The inner rate η_t = η σ(w·x_t + bias) and the scale and shift of the norm are learned.
Queries and keys have length one, so that only η_t determines the size of a step.

The gradient passes through the norm, so the new memory is not linear in the old one, and no matrix A(x) is its transition. The
layer is therefore a baseline without eigenvalues. (Without norm and residual, and with mini-batches of one token, it would be
the delta rule with the key (k, 1).)

B batch  T time  S sequences  H heads  K head width  b tokens per mini-batch  M mini-batches
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState, gate_precision
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import head_width, require_positive, require_positive_number
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import unit


class TTT(Mixer):
    """TTT-Linear; its memory is W, c, W_base, c_base, and the number of tokens of the current mini-batch that are done.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        mini_batch: b, the number of tokens per mini-batch.
        rate: η, the largest inner learning rate.
        eps: added to the variance in the norm of the inner model.
        backend: accepted as for other layers, and without effect: there is one implementation, in plain torch.
    """

    def __init__(
        self, d_model: int, *, heads: int = 4, mini_batch: int = 16, rate: float = 1.0, eps: float = 1e-6, backend: str = "auto"
    ) -> None:
        width = head_width(d_model, heads)
        super().__init__(d_model, backend)
        require_positive(mini_batch=mini_batch)
        require_positive_number(rate=rate, eps=eps)
        self.heads, self.width, self.mini_batch, self.rate, self.eps = heads, width, mini_batch, rate, eps
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.rate_proj = nn.Linear(d_model, heads)
        self.initial_weight = nn.Parameter(0.02 * torch.randn(heads, width, width))
        self.initial_bias = nn.Parameter(torch.zeros(heads, 1, width))
        self.scale = nn.Parameter(torch.ones(heads, 1, width))
        self.offset = nn.Parameter(torch.zeros(heads, 1, width))
        self.norm = RMSNorm(width)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        weight, bias = (self._zeros(sequences, *start.shape) + start for start in (self.initial_weight, self.initial_bias))
        return MixerState((weight, bias, weight, bias, self._zeros(sequences, 1)))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        q, k, v = (
            gate_precision(project(x).unflatten(-1, (self.heads, -1))) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        y, memory = DESCENT.run(
            "reference",
            *(unit(q), unit(k), v, self.rate * torch.sigmoid(gate_precision(self.rate_proj(x)))[..., None]),
            scale=self.scale,
            offset=self.offset,
            mini_batch=self.mini_batch,
            eps=self.eps,
            initial_state=state.memory,
            packing=packing,
        )
        return self.out_proj(self.norm(y).to(x.dtype).flatten(-2)), MixerState(memory)


def descend(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H K"],
    rate: Float[Tensor, "B T H 1"],
    *,
    scale: Float[Tensor, "H 1 K"],
    offset: Float[Tensor, "H 1 K"],
    mini_batch: int,
    eps: float,
    initial_state: tuple[Tensor, ...],
    packing: Packing | None,
) -> tuple[Float[Tensor, "B T H K"], tuple[Tensor, ...]]:
    """Train the inner model on every sequence, and return its answers and what it is at the end."""
    longest = q.shape[1] if packing is None else max(packing.lengths)
    *memory, done = initial_state
    row, position, lengths = _places(q, packing)
    done = done.round().clamp(0, mini_batch - 1)  # a whole number even if a study has added noise to the whole state
    column = position + done.long()[row, 0]
    mini_batches = (longest + 2 * mini_batch - 2) // mini_batch  # enough for every `done`

    def lay_out(tokens: Tensor) -> Float[Tensor, "M S H b _"]:
        """Return the tokens in one row per sequence, cut into mini-batches; slots without a token are 0."""
        grid = tokens.new_zeros(lengths.shape[0], mini_batches * mini_batch, *tokens.shape[2:])
        grid = grid.index_put((row, column), tokens.flatten(0, 1))
        return grid.unflatten(1, (mini_batches, -1)).transpose(2, 3).transpose(0, 1)

    outputs, norm = [], InnerNorm(scale, offset, eps)
    for number, batch in enumerate(zip(*map(lay_out, (q, k, v, rate)), strict=True), start=1):
        y, weight, bias = _train(norm, *memory, *batch)
        full = (done + lengths >= number * mini_batch)[..., None, None]
        memory = [weight, bias, torch.where(full, weight, memory[2]), torch.where(full, bias, memory[3])]
        outputs.append(y)
    grid = torch.stack(outputs).transpose(0, 1).transpose(2, 3).flatten(1, 2)  # [S, M b, H, K]
    return grid[row, column].view(q.shape), (*memory, (done + lengths) % mini_batch)


DESCENT = Op("ttt", {"reference": descend})


@dataclass(frozen=True)
class InnerNorm:
    """The norm of the inner model's output, norm(z) = scale (z - mean) / deviation + offset."""

    scale: Float[Tensor, "H 1 K"]
    offset: Float[Tensor, "H 1 K"]
    eps: float

    def __call__(self, z: Float[Tensor, "S H b K"]) -> Float[Tensor, "S H b K"]:
        return self._centred(z)[0] * self.scale + self.offset

    def gradient(self, z: Float[Tensor, "S H b K"], target: Float[Tensor, "S H b K"]) -> Float[Tensor, "S H b K"]:
        """Return the gradient of ½|norm(z) - target|² with respect to z.

        The Jacobian of the norm removes the components that would change the mean and the variance of z.
        """
        unit_z, deviation = self._centred(z)
        error = (unit_z * self.scale + self.offset - target) * self.scale
        along = (error * unit_z).mean(-1, keepdim=True)
        return (error - error.mean(-1, keepdim=True) - unit_z * along) / deviation

    def _centred(self, z: Tensor) -> tuple[Tensor, Tensor]:
        centred = z - z.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return centred / deviation, deviation


def _train(
    norm: InnerNorm,
    weight: Float[Tensor, "S H K K"],
    bias: Float[Tensor, "S H 1 K"],
    base_weight: Float[Tensor, "S H K K"],
    base_bias: Float[Tensor, "S H 1 K"],
    q: Float[Tensor, "S H b K"],
    k: Float[Tensor, "S H b K"],
    v: Float[Tensor, "S H b K"],
    rate: Float[Tensor, "S H b 1"],
) -> tuple[Float[Tensor, "S H b K"], Float[Tensor, "S H K K"], Float[Tensor, "S H 1 K"]]:
    """Return the answers of a mini-batch, and the weight and bias of the model after it.

    Answer i is that of the model after i tokens. The input of its norm is Wᵀq_i + c - Σ_{j≤i} η_j (k_j·q_i + 1) ∇_j, where
    ∇_j is the gradient of the loss of token j with respect to the input of the norm.
    """
    step = rate * norm.gradient(k @ base_weight + base_bias, v - k)
    seen = (q @ k.mT + 1).tril()
    answer = q + norm(q @ weight + bias - seen @ step)
    return answer, weight - k.mT @ step, bias - step.sum(-2, keepdim=True)


def _places(
    x: Float[Tensor, "B T H K"], packing: Packing | None
) -> tuple[Int[Tensor, " BT"], Int[Tensor, " BT"], Int[Tensor, "S 1"]]:
    """Return the sequence of every token, its position in it, and the length of each sequence.

    Nothing is copied between host and device, so that a CUDA graph can capture it.
    """
    batch, time = x.shape[:2]
    token = torch.arange(time, device=x.device)
    if packing is None:
        row = torch.arange(batch, device=x.device)
        return row.repeat_interleave(time), token.repeat(batch), torch.full_like(row, time)[:, None]
    bounds, row = packing.bounds, packing.sequence_of_token()
    return row, token - bounds[row], bounds.diff()[:, None]
