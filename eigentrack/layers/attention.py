"""Causal softmax attention with rotary positions: the transformer baseline. Its state is the cache of all keys and values.

B batch  T time  H heads  D head dim  P tokens in the cache
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.mixer import Mixer, MixerState
from eigentrack.layers.norm import RMSNorm
from eigentrack.layers.validation import head_width
from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.packing import Packing


class Attention(Mixer):
    """Causal softmax attention, by torch's fused kernels.

    These have no second derivatives, and say so; under `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` they exist.

    Args:
        d_model: the width of the input and the output.
        heads: the number of heads.
        rotary_base: the base of the rotary positions; None: no positions, except what the causal mask reveals.
        key_norm: whether queries and keys are normalised, each over all heads together, as in OLMo.
        norm_eps: the eps of these norms.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int = 4,
        rotary_base: float | None = 10_000.0,
        key_norm: bool = False,
        norm_eps: float = 1e-5,
    ) -> None:
        width = head_width(d_model, heads)
        if width % 2 and rotary_base is not None:
            raise ValueError(f"rotary positions turn pairs of channels: d_model/heads={width} must be even")
        super().__init__(d_model)
        self.heads, self.width, self.rotary_base = heads, width, rotary_base
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.query_norm, self.key_norm = (RMSNorm(d_model, eps=norm_eps) if key_norm else nn.Identity() for _ in range(2))
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        cache = self.qkv_proj.weight.new_zeros(sequences, 0, self.heads, self.width)
        return MixerState((cache, cache, torch.zeros(sequences, 0, dtype=torch.bool, device=cache.device)))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in (self.query_norm(q), self.key_norm(k), v))
        if packing is None and not (is_batch_invariant() and len(x) > 1):
            y, memory = self._attend(q, k, v, *state.memory)
        else:
            lengths = [x.shape[1]] * len(x) if packing is None else packing.lengths
            new = (part.flatten(0, 1)[None].split(lengths, 1) for part in (q, k, v))
            rows = zip(*new, *(part.split(1) for part in state.memory), strict=True)
            outputs, memories = zip(*(self._attend(*row) for row in rows), strict=True)
            y, memory = torch.cat(outputs, dim=1), MixerState.stack([MixerState(memory) for memory in memories]).memory
            y = y.view(*x.shape[:2], *y.shape[2:])
        return self.out_proj(y.flatten(-2)), MixerState(memory)

    def _attend(
        self,
        q: Float[Tensor, "B T H D"],
        k: Float[Tensor, "B T H D"],
        v: Float[Tensor, "B T H D"],
        past_k: Float[Tensor, "B P H D"],
        past_v: Float[Tensor, "B P H D"],
        held: Bool[Tensor, "B P"],
    ) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, ...]]:
        """Return the outputs and the new cache.

        The cache holds keys that are already rotated to their positions; `held` marks its slots that hold a token.
        """
        batch, time = q.shape[:2]
        if is_batch_invariant():  # without the empty slots that other sequences make necessary
            past_k, past_v, held = (part[:, held[0]] for part in (past_k, past_v, held))
        position = held.sum(1, keepdim=True) + torch.arange(time, device=q.device)
        q, k = self._turn(q, position), self._turn(k, position)
        all_k, all_v = torch.cat([past_k, k], dim=1), torch.cat([past_v, v], dim=1)
        new = torch.ones(batch, time, dtype=torch.bool, device=q.device)
        visible = None
        if past_k.shape[1]:
            causal = torch.ones(time, time, dtype=torch.bool, device=q.device).tril().expand(batch, -1, -1)
            visible = torch.cat([held[:, None].expand(-1, time, -1), causal], dim=2)[:, None]
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            all_k.transpose(1, 2),
            all_v.transpose(1, 2),
            attn_mask=visible,
            is_causal=visible is None,
        )
        return y.transpose(1, 2), (all_k, all_v, torch.cat([held, new], dim=1))

    def _turn(self, x: Float[Tensor, "B T H D"], position: Int[Tensor, "B T"]) -> Float[Tensor, "B T H D"]:
        if self.rotary_base is None:
            return x
        half = self.width // 2
        speed = self.rotary_base ** -(torch.arange(half, dtype=torch.float64, device=x.device) / half)
        angle = (position[..., None] * speed)[:, :, None]  # [B, T, 1, D/2]; in float64, as position × speed can be large
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
