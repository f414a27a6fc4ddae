# mypy: disable-error-code="import-untyped"
"""How gated linear attention is cut into programs: sizes of chunks and blocks, and launch settings.

C tokens a chunk. A slot is the place of one chunk in the tensors that hold one entry a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
import triton.language as tl
from torch import Tensor

from eigentrack.ops.shared.launch import Compiled

LONGEST_CHUNK = 64
BLOCK, BLOCKS_OF_A_CHUNK = 16, 2  # tokens, and how many with one gate a channel
SHORTEST_CHUNK = 16  # tensor cores want at least 16 rows
PROGRAMS_WANTED = 256  # about two for each multiprocessor
SHORTEST_SEGMENT = 16  # chunks
WIDEST_SHORT = 32  # of K and V, for the kernels that hold both whole: more rows would put their operands at risk (see below)


@dataclass(frozen=True)
class GatedLinearPlan:
    sequences: int
    time: int
    heads: int
    key_dim: int
    value_dim: int
    channel: bool  # a gate for each key channel, or one for the head
    packed: bool
    operand: torch.dtype
    save: bool  # for the backward pass

    @staticmethod
    def of(q: Tensor, k: Tensor, v: Tensor, a: Tensor, cu_seqlens: Tensor | None, save: bool) -> GatedLinearPlan:
        """Made once for all calls of the same sizes."""
        return _kept(*_fields(q, k, v, a, cu_seqlens, save))

    @staticmethod
    def of_symbols(q: Tensor, k: Tensor, v: Tensor, a: Tensor, cu_seqlens: Tensor | None, save: bool) -> GatedLinearPlan:
        """For torch.compile, whose sizes may be symbols: no table can keep those."""
        return GatedLinearPlan(*_fields(q, k, v, a, cu_seqlens, save))

    @cached_property
    def compiled(self) -> Compiled:
        """The kernels that were launched for this plan."""
        return {}

    @cached_property
    def step(self) -> bool:
        """A single token that nobody differentiates."""
        return self.time == 1 and not self.packed and not self.save

    @cached_property
    def short(self) -> bool:
        """Every sequence fits into one chunk, and a program can hold all of its state."""
        fits = self.time <= self._longest and max(self.key_dim, self.value_dim) <= WIDEST_SHORT
        return fits and not self.packed and not self.step

    @cached_property
    def single(self) -> bool:
        """Every sequence is one chunk."""
        return not self.packed and self.time <= self.tokens

    @cached_property
    def tokens(self) -> int:
        if self.short:
            return max(SHORTEST_CHUNK, _power_of_two(self.time))
        return self._longest

    @cached_property
    def _longest(self) -> int:
        """Tokens whose products of gates the registers hold."""
        return LONGEST_CHUNK if self.half and not self.channel else BLOCKS_OF_A_CHUNK * BLOCK

    @cached_property
    def slots(self) -> int:
        """Enough for every chunk. How packed sequences fall into chunks is known only on the GPU, hence a bound there."""
        if self.packed:
            return self.time // self.tokens + self.sequences
        return self.sequences * -(-self.time // self.tokens)

    @cached_property
    def span(self) -> int:
        """Chunks that a program walks. Few long sequences are cut to occupy all multiprocessors, at the cost of two walks."""
        settings, chunks = self.walk_settings(), -(-self.time // self.tokens)
        blocks = -(-self.key_dim // settings["BK"]) * -(-self.value_dim // settings["BV"])
        programs = self.sequences * self.heads * blocks
        if self.packed or 2 * programs > PROGRAMS_WANTED or chunks < 4 * SHORTEST_SEGMENT:
            return chunks
        return max(SHORTEST_SEGMENT, -(-chunks * programs // (2 * PROGRAMS_WANTED)))

    @cached_property
    def segments(self) -> int:
        return -(-self.time // (self.tokens * self.span))

    @cached_property
    def half(self) -> bool:
        return self.operand == torch.bfloat16

    def constants(self) -> dict[str, object]:
        """The compile-time arguments that kernels share; each takes those it names."""
        return {
            "K": self.key_dim,
            "V": self.value_dim,
            "C": self.tokens,
            "LEVELS": self.tokens.bit_length() - 1,
            "CHANNEL": self.channel,
            "OPERAND": tl.bfloat16 if self.half else tl.float32,
            "PRECISION": "tf32x3",  # of float32 products
        }

    # Launch settings. Two warps, or 32 rows on the left, keep a product away from the wgmma instructions: their left operand
    # must come from memory, since the assembler of CUDA before 13.3 may overwrite one in registers (tests/kernels checks that).

    def step_settings(self) -> dict[str, int]:
        return {"BK": max(16, _power_of_two(self.key_dim)), "BV": 16, "num_warps": 4}

    def short_settings(self) -> dict[str, int]:
        key, value = (max(16, _power_of_two(size)) for size in (self.key_dim, self.value_dim))
        return {"BK": key, "BV": value, "num_warps": 4, "num_stages": 1}

    def walk_settings(self) -> dict[str, int]:
        if not self.half:
            return {"BK": 32, "BV": 16, "num_warps": 2, "num_stages": 2}
        return {"BK": 64, "BV": 64, "num_warps": 4, "num_stages": 3}

    def carry_settings(self) -> dict[str, int]:
        return {"BLOCK": 1024, "num_warps": 4}

    def output_settings(self) -> dict[str, int]:
        if not self.half:
            return {"BK": 32, "BV": 16, "num_warps": 2, "num_stages": 1}
        return {"BK": 64, "BV": 64, "num_warps": 4, "num_stages": 2}

    def scores_settings(self) -> dict[str, int]:
        """One warp, whose threads share the channels alone."""
        return {"BK": min(128, max(32, _power_of_two(self.key_dim))), "num_warps": 1, "num_stages": 1}

    def pairs_settings(self) -> dict[str, int]:
        return {"BV": 64 if self.half else 16, "num_warps": 1, "num_stages": 1}

    def gradients_settings(self) -> dict[str, int]:
        if not self.half:
            return {"BK": 32, "BV": 16, "num_warps": 4, "num_stages": 1}
        return {"BK": 64, "BV": 64, "num_warps": 4, "num_stages": 1}

    def channel_gradients_settings(self) -> dict[str, int]:
        """A channel a thread. With blocks of 32 columns of V the compiler spreads the tokens over threads, at four times the
        instructions."""
        return {"BK": 32, "BV": 64 if self.half and self.value_dim > 32 else 16, "num_warps": 1, "num_stages": 1}


def _fields(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, cu_seqlens: Tensor | None, save: bool
) -> tuple[int, int, int, int, int, bool, bool, torch.dtype, bool]:
    batch, time, heads, key_dim = q.shape
    sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    operand = torch.bfloat16 if all(x.dtype == torch.bfloat16 for x in (q, k, v)) else torch.float32
    return sequences, time, heads, key_dim, v.shape[-1], a.ndim == 4, cu_seqlens is not None, operand, save


_kept = lru_cache(maxsize=1024)(GatedLinearPlan)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
