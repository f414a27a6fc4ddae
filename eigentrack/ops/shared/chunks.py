"""Sequences in chunks of L tokens: how they are split, how chunks are grouped, and how the results are joined again.

A chunk step is chunk c of every sequence that has one, longest sequence first; a group is a few consecutive chunk steps that
are computed together. On a CPU the tensors of a group should fit into the cache; on a GPU a group is as large as possible.

S sequences  R chunks of a group  L tokens per chunk
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from eigentrack.ops.shared.packing import Packing

_FLOATS_IN_CACHE = 2**17  # the most floats in the largest tensor of a group, on a CPU


class ChunkLayout(ABC):
    """The layout of sequences in chunks; `groups[g]` lists how many sequences run in each chunk step of group g."""

    groups: list[tuple[int, ...]]
    by_length: Tensor | None  # [S] sequences, longest first; None when all are equally long

    @abstractmethod
    def split(self, x: Tensor, fill: float = 0.0) -> list[Tensor]:
        """Split [B, T, ...] into one [R, L, ...] per group; slots that hold no token get `fill`."""

    @abstractmethod
    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        """Join one [R, L, ...] per group into [B, T, ...]."""

    @abstractmethod
    def padding(self) -> list[Tensor | None]:
        """Return, for each group, which slots [R, L] hold no token; None if every slot holds one."""


def chunk_layout(x: Tensor, packing: Packing | None, size: int, floats_per_chunk: int) -> ChunkLayout:
    """Return the layout of x [B, T, ...] in chunks of `size` tokens.

    `floats_per_chunk` is the size of the largest tensor that the caller will hold per chunk; it limits the groups on a CPU.
    """
    sequences = x.shape[0] if packing is None else packing.sequences
    chunks_per_group = sequences * x.shape[1] if x.is_cuda else max(1, _FLOATS_IN_CACHE // floats_per_chunk)
    if packing is None:
        return EqualLengths(x.shape[0], x.shape[1], size, chunks_per_group)
    return PackedLengths(packing.lengths, size, chunks_per_group, x.device)


class EqualLengths(ChunkLayout):
    """The layout of a plain batch: groups are stretches of time.

    A last, shorter chunk is a group of its own, so nothing is padded.
    """

    by_length = None

    def __init__(self, batch: int, time: int, size: int, chunks_per_group: int) -> None:
        chunks, rest = divmod(time, size)
        steps = max(1, chunks_per_group // batch)
        counts = [min(steps, chunks - first) for first in range(0, chunks, steps)]
        self.groups = [(batch,) * count for count in counts] + [(batch,)] * (rest > 0)
        self._sizes = [size] * len(counts) + [rest] * (rest > 0)
        self._times = [len(group) * size for group, size in zip(self.groups, self._sizes, strict=True)]

    def split(self, x: Tensor, fill: float = 0.0) -> list[Tensor]:
        stretches = zip(x.split(self._times, dim=1), self._sizes, strict=True)
        return [stretch.unflatten(1, (-1, size)).transpose(0, 1).flatten(0, 1) for stretch, size in stretches]

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        grids = (piece.unflatten(0, (len(group), -1)) for piece, group in zip(pieces, self.groups, strict=True))
        return torch.cat([grid.transpose(0, 1).flatten(1, 2) for grid in grids], dim=1)

    def padding(self) -> list[Tensor | None]:
        return [None] * len(self.groups)


class PackedLengths(ChunkLayout):
    """The layout of packed sequences: each is padded to whole chunks, and fewer sequences run in later chunk steps."""

    def __init__(self, lengths: Sequence[int], size: int, chunks_per_group: int, device: torch.device) -> None:
        length = torch.tensor(lengths)
        longest_first = torch.argsort(length, descending=True, stable=True)
        chunks = (length + size - 1) // size
        running = [int((chunks > step).sum()) for step in range(int(chunks.max()))]
        self.groups = _group(running, chunks_per_group)
        self.by_length = longest_first.to(device)

        sequence = torch.cat([longest_first[:count] for count in running])  # [chunks]
        step = torch.repeat_interleave(torch.arange(len(running)), torch.tensor(running))
        position = (step * size)[:, None] + torch.arange(size)  # [chunks, L] within its sequence
        is_token = position < length[sequence][:, None]
        start = length.cumsum(0) - length
        slot_to_token = torch.where(is_token, start[sequence][:, None] + position, 0).flatten()
        slots = torch.nonzero(is_token.flatten()).squeeze(1)
        token_to_slot = torch.empty_like(slots)
        token_to_slot[slot_to_token[slots]] = slots

        self._size = size
        self._is_padding = ~is_token.flatten().to(device)
        self._slot_to_token, self._token_to_slot = slot_to_token.to(device), token_to_slot.to(device)
        self._rows = [sum(group) for group in self.groups]

    def split(self, x: Tensor, fill: float = 0.0) -> list[Tensor]:
        slots = _TokensToSlots.apply(x.squeeze(0), self._slot_to_token, self._token_to_slot, self._is_padding, fill)
        return list(slots.unflatten(0, (-1, self._size)).split(self._rows))

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        slots = torch.cat(list(pieces)).flatten(0, 1)
        return _SlotsToTokens.apply(slots, self._slot_to_token, self._token_to_slot, self._is_padding)[None]

    def padding(self) -> list[Tensor | None]:
        return list(self._is_padding.unflatten(0, (-1, self._size)).split(self._rows))


def _group(running: list[int], chunks_per_group: int) -> list[tuple[int, ...]]:
    """Group consecutive chunk steps: at most `chunks_per_group` chunks per group, but at least one step."""
    borders, held = [0], 0
    for step, count in enumerate(running):
        if held and held + count > chunks_per_group:
            borders.append(step)
            held = 0
        held += count
    return [tuple(running[first:last]) for first, last in pairwise([*borders, len(running)])]


class _TokensToSlots(torch.autograd.Function):
    """A gather whose gradient is a gather by the inverse index: adding by index is slower, and in random order on a GPU."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, slot_to_token: Tensor, token_to_slot: Tensor, is_padding: Tensor, fill: float
    ) -> Tensor:
        ctx.save_for_backward(slot_to_token, token_to_slot, is_padding)
        return _fill(tokens.index_select(0, slot_to_token), is_padding, fill)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        return _SlotsToTokens.apply(grad, *ctx.saved_tensors), None, None, None, None


class _SlotsToTokens(torch.autograd.Function):
    """The inverse gather, from slots to tokens; padding gets a gradient of zero. Each of the two is the other's gradient."""

    @staticmethod
    def forward(ctx: Any, slots: Tensor, slot_to_token: Tensor, token_to_slot: Tensor, is_padding: Tensor) -> Tensor:
        ctx.save_for_backward(slot_to_token, token_to_slot, is_padding)
        return slots.index_select(0, token_to_slot)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _TokensToSlots.apply(grad, *ctx.saved_tensors, 0.0), None, None, None


def _fill(slots: Tensor, is_padding: Tensor, value: float) -> Tensor:
    return slots.masked_fill_(is_padding.view(-1, *[1] * (slots.ndim - 1)), value)


class Carry:
    """The state of every sequence, passed on from chunk step to chunk step; states of sequences that end are set aside."""

    def __init__(self, layout: ChunkLayout, initial_state: Tensor) -> None:
        self._by_length = layout.by_length
        self._running = initial_state if layout.by_length is None else initial_state[layout.by_length]
        self._ended: list[Tensor] = []

    def run(self, steps: tuple[int, ...], advance: Callable[..., tuple[Tensor, Tensor]], *parts: Tensor) -> Tensor:
        """Run `state, y = advance(state, *parts)` for each chunk step of a group and return all y, [R, ...].

        `parts` are tensors [R, ...] of the group; `advance` gets the rows of one chunk step.
        """
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
        """Return the last states [S, ...] in the order in which the sequences were given."""
        if self._by_length is None:
            return self._running
        return torch.cat([self._running, *reversed(self._ended)])[torch.argsort(self._by_length)]
