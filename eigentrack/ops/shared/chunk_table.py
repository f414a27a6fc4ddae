"""Where the chunks of packed sequences lie. A slot is the place of one chunk in tensors that hold one entry a chunk."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChunkTable:
    """For packed sequences: the slot of each sequence's first chunk [S + 1], and the sequence of each slot [slots]."""

    bounds: Tensor | None
    chunk_starts: Tensor | None
    chunk_sequence: Tensor | None

    @staticmethod
    def of(cu_seqlens: Tensor | None, tokens: int, slots: int) -> ChunkTable:
        """Computed on the GPU, without waiting for it. A slot that is not used lies past the end of the last sequence."""
        if cu_seqlens is None:
            return ChunkTable(None, None, None)
        chunks = (cu_seqlens.diff() + tokens - 1) // tokens
        starts = torch.cat([chunks.new_zeros(1), chunks.cumsum(0)])
        places = torch.arange(slots, device=cu_seqlens.device)
        sequence = torch.searchsorted(starts[1:], places, right=True).clamp_max(cu_seqlens.shape[0] - 2)
        return ChunkTable(cu_seqlens, starts, sequence)
