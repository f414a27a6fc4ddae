"""How an sLSTM is cut into programs: blocks of sequences of one head, and launch settings.

BS sequences a program  BD: the head dim D up to a power of two
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# A program of 4 sequences has a quarter of the work of one of 16 at every token, but reads R as often: it is quicker while
# the card has room for all of them, up to about three for each multiprocessor.
SMALL_BLOCK, LARGE_BLOCK = 4, 16
SMALL_BLOCKS_UP_TO = 396  # programs


@dataclass(frozen=True)
class SLSTMPlan:
    sequences: int
    time: int
    heads: int
    width: int
    packed: bool

    @staticmethod
    def of(gates: Tensor, cu_seqlens: Tensor | None) -> SLSTMPlan:
        batch, time, heads, _, width = gates.shape
        sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
        return SLSTMPlan(sequences, time, heads, width, cu_seqlens is not None)

    @property
    def block(self) -> int:
        return SMALL_BLOCK if self._programs_of(SMALL_BLOCK) <= SMALL_BLOCKS_UP_TO else LARGE_BLOCK

    @property
    def programs(self) -> int:
        return self._programs_of(self.block)

    def settings(self) -> dict[str, object]:
        """All compile-time arguments that both kernels share, and their warps: four sequences fill the threads of a program."""
        width_block = max(16, 1 << (self.width - 1).bit_length())  # a product wants at least 16
        return {
            "D": self.width,
            "BS": self.block,
            "BD": width_block,
            "PACKED": self.packed,
            "num_warps": SMALL_BLOCK * width_block // 32,
            "num_stages": 1,
        }

    def _programs_of(self, block: int) -> int:
        return -(-self.sequences // block) * self.heads
