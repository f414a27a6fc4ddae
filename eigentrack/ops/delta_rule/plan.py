# mypy: disable-error-code="import-untyped"
"""The plan of a delta-rule call: sizes of chunks and blocks, and launch settings.

C rows per chunk: C // n tokens of n factors each. A slot is the place of one chunk in tensors that hold one entry per chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.launch import Compiled

LONGEST_CHUNK = 64  # rows
LONGEST_SHORT_CHUNK = 32  # rows, in the kernels that hold everything in the registers of two warps
SHORTEST_CHUNK = 16  # rows: tensor cores need at least 16
PROGRAMS_WANTED = 128  # about one per multiprocessor
WIDEST_SHORT = {torch.bfloat16: 32, torch.float32: 16}  # the largest K and V that one program holds; more would spill badly


@dataclass(frozen=True)
class DeltaRulePlan:
    """The sizes of a call, and how the kernels cut it into programs."""

    sequences: int
    time: int
    heads: int
    factors: int
    key_dim: int
    value_dim: int
    gated: bool
    packed: bool
    operand: torch.dtype  # the type of the products' operands
    save: bool  # whether a backward pass will follow
    invariant: bool = False  # whether the bits of a sequence may not depend on the others

    @staticmethod
    def of(q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, cu_seqlens: Tensor | None, save: bool) -> DeltaRulePlan:
        """Return the plan of a call, which is made once for all calls of the same sizes."""
        return _kept(*_fields(q, k, v, gate, cu_seqlens, save))

    @staticmethod
    def of_symbols(
        q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, cu_seqlens: Tensor | None, save: bool
    ) -> DeltaRulePlan:
        """Return the plan of a call under torch.compile, whose sizes may be symbols, which no cache can keep."""
        return DeltaRulePlan(*_fields(q, k, v, gate, cu_seqlens, save))

    @cached_property
    def step(self) -> bool:
        """Whether the call is a single token without a backward pass."""
        return self.time == 1 and not self.save and not self.packed

    @cached_property
    def short(self) -> bool:
        """Whether every sequence has only a few chunks and one program can hold its whole state."""
        fits = self.time * self.factors <= LONGEST_CHUNK and max(self.key_dim, self.value_dim) <= WIDEST_SHORT[self.operand]
        return fits and not self.packed and not self.step

    @cached_property
    def single(self) -> bool:
        """Whether every sequence is one chunk."""
        return not self.packed and self.time <= self.tokens

    @cached_property
    def rows(self) -> int:
        """C, the number of rows per chunk."""
        if not (self.short or self.step):
            return LONGEST_CHUNK if self.half else LONGEST_CHUNK // 2
        return SHORTEST_CHUNK if self.time * self.factors <= SHORTEST_CHUNK else LONGEST_SHORT_CHUNK

    @cached_property
    def tokens(self) -> int:
        """The number of tokens per chunk."""
        return self.rows // self.factors

    @cached_property
    def slots(self) -> int:
        """The number of slots: one per chunk. For packed sequences, whose chunks only the GPU knows, it is an upper bound."""
        if self.packed:
            return self.time // self.tokens + self.sequences
        return self.sequences * self.chunks

    @cached_property
    def chunks(self) -> int:
        """The number of chunks per sequence, unless sequences are packed."""
        return -(-self.time // self.tokens)

    @cached_property
    def half(self) -> bool:
        return self.operand == torch.bfloat16

    @cached_property
    def key_block(self) -> int:
        return max(64 if self.half and not self.short and not self.step else 16, _power_of_two(self.key_dim))

    @cached_property
    def value_block(self) -> int:
        return max(16, _power_of_two(self.value_dim))

    @cached_property
    def compiled(self) -> Compiled:
        """The kernels that were launched for this plan."""
        return {}

    @cached_property
    def constants(self) -> dict[str, object]:
        """The compile-time arguments that all kernels share."""
        return {
            "N": self.factors,
            "K": self.key_dim,
            "C": self.rows,
            "BK": self.key_block,
            "GATED": self.gated,
            "OPERAND": tl.bfloat16 if self.half else tl.float32,
            # for float32 products except k·k of (3): those of the triangular system, and all others if q, k or v is float32
            "PRECISION": "tf32x3",
        }

    # Launch settings, from timings on an H200. With two warps, or 32 rows on the left, a product does not use the wgmma
    # instructions. Where it does, its left operand must come from memory, since the assembler of CUDA before 13.3 may overwrite
    # one in registers (tests/ops/delta_rule/test_compile.py checks it). Blocks of 32 columns and K > 128 failed there as well.

    @cached_property
    def _light(self) -> bool:
        """Whether the registers of few warps hold a chunk; a few spills cost less than more warps would."""
        return self.half and not self.gated

    @cached_property
    def step_settings(self) -> dict[str, int]:
        return {"BV": 16, "num_warps": 4}

    @cached_property
    def short_settings(self) -> dict[str, int]:
        left = (self.time - (self.chunks - 1) * self.tokens) * self.factors
        last = min(self.rows, max(SHORTEST_CHUNK, _power_of_two(left)))
        return {"CHUNKS": self.chunks, "C_LAST": last, "num_warps": 2, "num_stages": 1}

    @cached_property
    def prepare_settings(self) -> dict[str, int]:
        return {"num_warps": 2 if self._light else 4, "num_stages": 1}

    @cached_property
    def walk_settings(self) -> dict[str, int]:
        """The settings of the walks: blocks of V are narrow if there are few sequences and heads, as every block is a program.

        Loads run ahead from chunk to chunk. A single chunk has no next one, and its buffers would only keep other programs off
        the multiprocessor. In bfloat16 two stages are needed at least: one is compiled into wrong addresses (T40 H8 D128, K65
        V5).
        """
        if not self.half:
            return {"BV": 16, "num_warps": 2, "num_stages": 1}
        programs = self.sequences * self.heads * -(-self.value_dim // 64)
        wide = self.value_dim > 16 if self.invariant else programs >= PROGRAMS_WANTED
        ahead = 2 if self.single or (self.gated and self.factors == 1) else 3
        return {"BV": 64 if wide else 16, "num_warps": 4, "num_stages": ahead}

    @cached_property
    def gradients_settings(self) -> dict[str, int]:
        if not self.half:
            return {"BV": 16, "num_warps": 2, "num_stages": 1}
        return {"BV": 64, "num_warps": 4 if self._light else 8, "num_stages": 1}

    @cached_property
    def gates_settings(self) -> dict[str, int]:
        return {"BT": 32, "num_warps": 4, "num_stages": 1}


_kept = lru_cache(maxsize=1024)(DeltaRulePlan)


def _fields(q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, cu_seqlens: Tensor | None, save: bool) -> tuple[Any, ...]:
    batch, time, heads, factors, key_dim = k.shape
    sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    operand = torch.bfloat16 if q.dtype == k.dtype == v.dtype == torch.bfloat16 else torch.float32
    sizes = (sequences, time, heads, factors, key_dim, v.shape[-1])
    return *sizes, gate is not None, cu_seqlens is not None, operand, save, is_batch_invariant()


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
