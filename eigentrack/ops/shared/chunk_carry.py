"""The state of every sequence, handed from chunk step to chunk step; sequences that end are set aside.

S sequences  R chunks of a group
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from eigentrack.ops.shared.chunk_layout import ChunkLayout


class Carry:
    def __init__(self, layout: ChunkLayout, initial_state: Tensor) -> None:
        self._by_length = layout.by_length
        self._running = initial_state if layout.by_length is None else initial_state[layout.by_length]
        self._ended: list[Tensor] = []

    def run(self, steps: tuple[int, ...], advance: Callable[..., tuple[Tensor, Tensor]], *parts: Tensor) -> Tensor:
        """state, y = advance(state, *parts of the chunk step) for the steps of a group; returns all y, [R, ...]."""
        if len(steps) == 1:
            return self._step(steps[0], advance, *parts)
        pieces = zip(steps, *(part.split(steps) for part in parts), strict=True)
        return torch.cat([self._step(count, advance, *piece) for count, *piece in pieces])

    def _step(self, count: int, advance: Callable[..., tuple[Tensor, Tensor]], *parts: Tensor) -> Tensor:
        if count < len(self._running):
            self._ended.append(self._running[count:])
            self._running = self._running[:count]
        self._running, y = advance(self._running, *parts)
        return y

    def last_state(self) -> Tensor:
        """[S, ...] in the order in which the sequences came."""
        if self._by_length is None:
            return self._running
        return torch.cat([self._running, *reversed(self._ended)])[torch.argsort(self._by_length)]
