"""TTT-Linear: W_t = W_{t-1} - η_t ∇ℓ(W_base; k_t, v_t),  ℓ = ½|f(k) - v|²,  f(x) = x + norm(Wᵀx + c),  y_t = f_t(q_t).

The memory is a linear model with a normalised, residual output, trained on the way: a step of gradient descent a token. All b
tokens of a mini-batch take their gradient at W_base, the model at its start, so that they can be taken together. c follows
the same rule as W; the inner rate η_t = η σ(w·x_t + bias) is learned, and so are the scale and shift of the norm. Queries and
keys have length one, so that η alone decides how far a step goes.

The gradient passes through the norm, so that the next memory is not linear in this one and no matrix A(x) is its transition: a
baseline, without eigenvalues. (Without norm and residual, with mini-batches of one, it is the delta rule with the key (k, 1).)

B batch  T time  S sequences  H heads  K head width  b tokens a mini-batch  M mini-batches
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState, gate_precision
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import head_width, require_positive, require_positive_number
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import unit


class TTT(Mixer):
    """`rate` is η. The memory is W, c, W_base, c_base, and how many tokens of the mini-batch are done.

    It has one form, in plain torch, whatever the backend.
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
        longest = x.shape[1] if packing is None else max(packing.lengths)
        *memory, done = (gate_precision(part) for part in state.memory)
        row, position, lengths = _places(x, packing)
        done = done.round().clamp(0, self.mini_batch - 1)  # still a count where a study has moved the whole state by noise
        column = position + done.long()[row, 0]
        mini_batches = (longest + 2 * self.mini_batch - 2) // self.mini_batch  # enough wherever the first one was left
        q, k, v = (project(x).unflatten(-1, (self.heads, -1)) for project in (self.q_proj, self.k_proj, self.v_proj))
        rate = self.rate * torch.sigmoid(gate_precision(self.rate_proj(x)))[..., None]

        def lay_out(tokens: Tensor) -> Float[Tensor, "M S H b _"]:
            """A row for each sequence, each in its place of its mini-batch; slots without a token have the rate 0."""
            grid = tokens.new_zeros(len(lengths), mini_batches * self.mini_batch, *tokens.shape[2:])
            grid = grid.index_put((row, column), tokens.flatten(0, 1))
            return grid.unflatten(1, (mini_batches, -1)).transpose(2, 3).transpose(0, 1)

        parts = (lay_out(part) for part in (unit(gate_precision(q)), unit(gate_precision(k)), gate_precision(v), rate))
        outputs = []
        with torch.autocast(x.device.type, enabled=False):  # it would cast the memory's products down
            for number, batch in enumerate(zip(*parts, strict=True), start=1):
                y, weight, bias = self._train(*memory, *batch)
                full = (done + lengths >= number * self.mini_batch)[..., None, None]
                memory = [weight, bias, torch.where(full, weight, memory[2]), torch.where(full, bias, memory[3])]
                outputs.append(y)
        grid = torch.stack(outputs).transpose(0, 1).transpose(2, 3).flatten(1, 2)  # [S, M b, H, K]
        y = self.norm(grid[row, column].view(*x.shape[:2], self.heads, -1)).to(x.dtype)
        return self.out_proj(y.flatten(-2)), MixerState((*memory, (done + lengths) % self.mini_batch))

    def _train(
        self,
        weight: Float[Tensor, "S H K K"],
        bias: Float[Tensor, "S H 1 K"],
        base_weight: Float[Tensor, "S H K K"],
        base_bias: Float[Tensor, "S H 1 K"],
        q: Float[Tensor, "S H b K"],
        k: Float[Tensor, "S H b K"],
        v: Float[Tensor, "S H b K"],
        rate: Float[Tensor, "S H b 1"],
    ) -> tuple[Float[Tensor, "S H b K"], Float[Tensor, "S H K K"], Float[Tensor, "S H 1 K"]]:
        """The answers of a mini-batch, and the model after it. Answer i comes from the model after i tokens:
        Wᵀq_i + c - Σ_{j≤i} η_j (k_j·q_i + 1) ∇_j, where ∇_j is the gradient with respect to what the norm is given."""
        step = rate * self._gradient(k @ base_weight + base_bias, v - k)
        seen = (q @ k.mT + 1).tril()
        answer = q + self._normalised(q @ weight + bias - seen @ step)[0] * self.scale + self.offset
        return answer, weight - k.mT @ step, bias - step.sum(-2, keepdim=True)

    def _gradient(self, z: Float[Tensor, "S H b K"], target: Float[Tensor, "S H b K"]) -> Float[Tensor, "S H b K"]:
        """Of ½|norm(z) - target|²: the norm's Jacobian takes away what moves the mean and what moves the variance."""
        unit_z, deviation = self._normalised(z)
        error = (unit_z * self.scale + self.offset - target) * self.scale
        along = (error * unit_z).mean(-1, keepdim=True)
        return (error - error.mean(-1, keepdim=True) - unit_z * along) / deviation

    def _normalised(self, z: Tensor) -> tuple[Tensor, Tensor]:
        centred = z - z.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return centred / deviation, deviation


def _places(
    x: Float[Tensor, "B T d"], packing: Packing | None
) -> tuple[Int[Tensor, " BT"], Int[Tensor, " BT"], Int[Tensor, "S 1"]]:
    """The sequence of every token, its position there, and how long each sequence is. Nothing is read on the host or copied
    from it, so that a CUDA graph can hold it."""
    batch, time, _ = x.shape
    token = torch.arange(time, device=x.device)
    if packing is None:
        row = torch.arange(batch, device=x.device)
        return row.repeat_interleave(time), token.repeat(batch), torch.full_like(row, time)[:, None]
    bounds, row = packing.bounds, packing.sequence_of_token()
    return row, token - bounds[row], bounds.diff()[:, None]
