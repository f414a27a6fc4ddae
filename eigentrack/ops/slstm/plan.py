"""The plan of an sLSTM call: the blocks of sequences of one head that programs take, and launch settings.

BS sequences per program  BD: the head dim D up to a power of two
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant

# A program of 4 sequences has a quarter of the work per token of one of 16, but reads R as often: it is faster as long as all
# programs fit on the GPU at once, up to about three per multiprocessor.
SMALL_BLOCK, LARGE_BLOCK = 4, 16
SMALL_BLOCKS_UP_TO = 396  # programs


@dataclass(frozen=True)
class SLSTMPlan:
    """The sizes of a call, and how the kernels cut it into programs."""

    sequences: int
    time: int
    heads: int
    width: int
    packed: bool
    invariant: bool = False  # whether the bits of a sequence may not depend on the others

    @staticmethod
    def of(gates: Tensor, cu_seqlens: Tensor | None) -> SLSTMPlan:
        batch, time, heads, _, width = gates.shape
        sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
        return SLSTMPlan(sequences, time, heads, width, cu_seqlens is not None, is_batch_invariant())

    @property
    def block(self) -> int:
        few = self._programs_of(SMALL_BLOCK) <= SMALL_BLOCKS_UP_TO
        return SMALL_BLOCK if few or self.invariant else LARGE_BLOCK

    @property
    def programs(self) -> int:
        return self._programs_of(self.block)

    def settings(self) -> dict[str, object]:
        """Return the compile-time arguments that both kernels share, and as many warps as four sequences fill."""
        width_block = max(16, 1 << (self.width - 1).bit_length())  # tl.dot needs at least 16
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
