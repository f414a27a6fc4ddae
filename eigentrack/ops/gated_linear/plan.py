# mypy: disable-error-code="import-untyped"
"""The plan of a call of gated linear attention: sizes of chunks and blocks, and launch settings.

C tokens per chunk. A slot is the place of one chunk in tensors that hold one entry per chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
import triton.language as tl
from torch import Tensor

from eigentrack.ops.shared.launch import Compiled

LONGEST_CHUNK = 64  # tokens
BLOCK, BLOCKS_OF_A_CHUNK = 16, 2  # tokens per block, and blocks per chunk, with one gate per channel
SHORTEST_CHUNK = 16  # tokens: tensor cores need at least 16 rows
PROGRAMS_WANTED = 256  # about two per multiprocessor
SHORTEST_SEGMENT = 16  # chunks
WIDEST_SHORT = 32  # the largest K and V that one program holds: operands with more rows could be overwritten (see below)


@dataclass(frozen=True)
class GatedLinearPlan:
    """The sizes of a call, and how the kernels cut it into programs."""

    sequences: int
    time: int
    heads: int
    key_dim: int
    value_dim: int
    channel: bool  # whether there is one gate per key channel, or one per head
    packed: bool
    operand: torch.dtype  # the type of the products' operands
    save: bool  # whether a backward pass will follow

    @staticmethod
    def of(q: Tensor, k: Tensor, v: Tensor, a: Tensor, cu_seqlens: Tensor | None, save: bool) -> GatedLinearPlan:
        """Return the plan of a call, which is made once for all calls of the same sizes."""
        return _kept(*_fields(q, k, v, a, cu_seqlens, save))

    @staticmethod
    def of_symbols(q: Tensor, k: Tensor, v: Tensor, a: Tensor, cu_seqlens: Tensor | None, save: bool) -> GatedLinearPlan:
        """Return the plan of a call under torch.compile, whose sizes may be symbols, which no cache can keep."""
        return GatedLinearPlan(*_fields(q, k, v, a, cu_seqlens, save))

    @cached_property
    def compiled(self) -> Compiled:
        """The kernels that were launched for this plan."""
        return {}

    @cached_property
    def step(self) -> bool:
        """Whether the call is a single token without a backward pass."""
        return self.time == 1 and not self.packed and not self.save

    @cached_property
    def short(self) -> bool:
        """Whether every sequence fits into one chunk and one program can hold its whole state."""
        fits = self.time <= self._longest and max(self.key_dim, self.value_dim) <= WIDEST_SHORT
        return fits and not self.packed and not self.step

    @cached_property
    def single(self) -> bool:
        """Whether every sequence is one chunk."""
        return not self.packed and self.time <= self.tokens

    @cached_property
    def tokens(self) -> int:
        """C, the number of tokens per chunk."""
        if self.short:
            return max(SHORTEST_CHUNK, _power_of_two(self.time))
        return self._longest

    @cached_property
    def _longest(self) -> int:
        """The most tokens whose products of gates fit into registers."""
        return LONGEST_CHUNK if self.half and not self.channel else BLOCKS_OF_A_CHUNK * BLOCK

    @cached_property
    def slots(self) -> int:
        """The number of slots: one per chunk. For packed sequences, whose chunks only the GPU knows, it is an upper bound."""
        if self.packed:
            return self.time // self.tokens + self.sequences
        return self.sequences * -(-self.time // self.tokens)

    @cached_property
    def span(self) -> int:
        """The number of chunks that a program walks.

        A few long sequences are cut into segments, to occupy all multiprocessors at the cost of two walks.
        """
        settings, chunks = self.walk_settings(), -(-self.time // self.tokens)
        blocks = -(-self.key_dim // settings["BK"]) * -(-self.value_dim // settings["BV"])
        programs = self.sequences * self.heads * blocks
        if self.packed or 2 * programs > PROGRAMS_WANTED or chunks < 4 * SHORTEST_SEGMENT:
            return chunks
        return max(SHORTEST_SEGMENT, -(-chunks * programs // (2 * PROGRAMS_WANTED)))

    @cached_property
    def segments(self) -> int:
        """The number of segments per sequence."""
        return -(-self.time // (self.tokens * self.span))

    @cached_property
    def half(self) -> bool:
        return self.operand == torch.bfloat16

    def constants(self) -> dict[str, object]:
        """Return the compile-time arguments that kernels share; each kernel takes those that it names."""
        return {
            "K": self.key_dim,
            "V": self.value_dim,
            "C": self.tokens,
            "LEVELS": self.tokens.bit_length() - 1,
            "CHANNEL": self.channel,
            "OPERAND": tl.bfloat16 if self.half else tl.float32,
            "PRECISION": "tf32x3",  # how float32 products are computed
        }

    # Launch settings. With two warps, or 32 rows on the left, a product does not use the wgmma instructions. Where it does, its
    # left operand must come from memory, since the assembler of CUDA before 13.3 may overwrite one in registers
    # (tests/ops/gated_linear/test_compile.py checks it).

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
        """Return settings with one warp, whose threads divide only the channels among them."""
        return {"BK": min(128, max(32, _power_of_two(self.key_dim))), "num_warps": 1, "num_stages": 1}

    def pairs_settings(self) -> dict[str, int]:
        return {"BV": 64 if self.half else 16, "num_warps": 1, "num_stages": 1}

    def gradients_settings(self) -> dict[str, int]:
        if not self.half:
            return {"BK": 32, "BV": 16, "num_warps": 4, "num_stages": 1}
        return {"BK": 64, "BV": 64, "num_warps": 4, "num_stages": 1}

    def channel_gradients_settings(self) -> dict[str, int]:
        """Return settings with one channel per thread.

        With blocks of 32 columns of V the compiler would spread the tokens over threads, with four times the instructions.
        """
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
