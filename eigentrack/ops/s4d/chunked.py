"""S4D in chunks: h_t = λ h_{t-1} + x_t e,   y_t = c · h_t,   λ = a R(θ) the same at every token.

Only the powers of λ are needed. With the state h that enters a chunk of L tokens,

    y_i = (λ^{i+1})ᵀ c · h + Σ_{j≤i} K_{i-j} x_j,   K_l = (λ^l)ᵀ c · e      (a convolution, i and j from 0)
    h'  = λ^L h + Σ_j λ^{L-1-j} e x_j .

λ^l = a^l R(l θ), and l θ is exact: angles are whole numbers of 2⁻³² turns.

This form also runs on a GPU. Gated linear attention with one head per channel and V = 1 is the same recurrence and has a
kernel, but it would read a gate for every token and channel of the state, where here one convolution serves all tokens.

R chunks of a group  L tokens per chunk  D channels  N state size  n: N, or N/2 pairs
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import rotate, running_rotation


def s4d(
    x: Float[Tensor, "B T D"],
    *,
    a: Float[Tensor, "D n"],
    turns: Float[Tensor, "D n"] | None,
    c: Float[Tensor, "D N"],
    initial_state: Float[Tensor, "S D N"],
    packing: Packing | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    layout = chunk_layout(x, packing, chunk_size, floats_per_chunk=chunk_size * x.shape[-1])
    carry = Carry(layout, initial_state)
    powers = Powers.of(a, turns, c, min(chunk_size, x.shape[1]) if packing is None else chunk_size)
    outputs = [
        _run_group(carry, steps, powers, piece, padding)
        for steps, piece, padding in zip(layout.groups, layout.split(x), layout.padding(), strict=True)
    ]
    return layout.join(outputs), carry.last_state()


@dataclass(frozen=True)
class Powers:
    """The powers λ^l for l = 0..L, and their products with e and c."""

    cosine: Float[Tensor, "l D n"]  # a^l cos l θ
    sine: Float[Tensor, "l D n"] | None  # a^l sin l θ; None without angles
    entries: Float[Tensor, "l D N"]  # λ^l e
    reads: Float[Tensor, "l D N"]  # (λ^l)ᵀ c

    @staticmethod
    def of(a: Float[Tensor, "D n"], turns: Float[Tensor, "D n"] | None, c: Float[Tensor, "D N"], length: int) -> Powers:
        exponents = torch.arange(length + 1, dtype=a.dtype, device=a.device)
        moduli = a.pow(exponents[:, None, None])
        if turns is None:
            return Powers(moduli, None, moduli, moduli * c)
        cosine, sine = running_rotation(turns.expand(1, length, *turns.shape), None)
        cosine = moduli * torch.cat([torch.ones_like(a)[None], cosine[0]])
        sine = moduli * torch.cat([torch.zeros_like(a)[None], sine[0]])
        entries = torch.stack([cosine, sine], -1).flatten(-2)  # the first column of every R
        return Powers(cosine, sine, entries, rotate(c, cosine, -sine))

    def kernel(self) -> Float[Tensor, "D l"]:
        """Return K_l, the factor with which an input enters the output l tokens later."""
        entered = self.reads if self.sine is None else self.reads[..., ::2]
        return entered.sum(-1).mT

    def move(self, state: Float[Tensor, "R D N"], tokens: Int[Tensor, " R"]) -> Float[Tensor, "R D N"]:
        """Return λ^tokens h."""
        if self.sine is None:
            return self.cosine[tokens] * state
        return rotate(state, self.cosine[tokens], self.sine[tokens])


def _run_group(
    carry: Carry, steps: tuple[int, ...], powers: Powers, x: Float[Tensor, "R L D"], padding: Tensor | None
) -> Float[Tensor, "R L D"]:
    length = x.shape[1]
    tokens = torch.full((len(x),), length, device=x.device) if padding is None else length - padding.sum(1)
    delay = torch.arange(length, device=x.device)[:, None] - torch.arange(length, device=x.device)  # i - j
    convolution = powers.kernel()[:, delay.clamp_min(0)].tril()  # [D, L, L]
    within = torch.einsum("rjd,dij->rid", x, convolution)  # chunks are rows of the products
    # move the last token of every chunk to the end: slots without a token, which hold zeros, come to the front
    place = (torch.arange(length, device=x.device) + tokens[:, None]) % length
    aligned = x.gather(1, place[..., None].expand_as(x))
    written = torch.einsum("rld,ldn->rdn", aligned, powers.entries[:length].flip(0))

    def advance(
        state: Tensor, tokens: Tensor, write: Tensor, within: Tensor
    ) -> tuple[Float[Tensor, "R D N"], Float[Tensor, "R L D"]]:
        read = torch.einsum("rdn,ldn->rld", state, powers.reads[1 : length + 1])
        return powers.move(state, tokens) + write, read + within

    return carry.run(steps, advance, tokens, written, within)
