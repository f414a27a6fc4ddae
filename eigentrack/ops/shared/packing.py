"""Packed sequences: S sequences laid end to end in one row of T tokens, each with a state of its own.

cu_seqlens = [0, end of sequence 0, end of sequence 1, ..., T]: sequence n owns the tokens cu_seqlens[n] : cu_seqlens[n+1].
A `Packing` holds such bounds once they have been checked; it is passed on, so that the bounds are not read again.

T time  S sequences
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

State = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Packing:
    """The bounds of packed sequences, on the device of the row that they divide."""

    bounds: Tensor  # [S + 1]
    time: int  # tokens of the row
    checked_lengths: tuple[int, ...] | None  # None while torch traces or captures a graph: the host cannot read the bounds then

    @staticmethod
    def of(x: Tensor, cu_seqlens: Tensor | Packing | None) -> Packing | None:
        """Return the packing of a row x [1, T, ...], with checked bounds; None if `cu_seqlens` is None, for a plain batch.

        Raise a ValueError if the bounds are wrong. Bounds on a GPU are read once, for which the host waits.
        """
        if x.ndim < 2:
            raise ValueError(f"the input has shape {list(x.shape)}, expected [batch, time, ...]")
        batch, time = x.shape[:2]
        if batch == 0 or time == 0:
            raise ValueError(f"the input has batch={batch} and time={time}: both must be at least 1")
        if cu_seqlens is None:
            return None
        if batch != 1:
            raise ValueError(f"packed sequences need batch=1, got batch={batch}: lay the sequences end to end in one row")
        if isinstance(cu_seqlens, Packing):
            if cu_seqlens.time != time:
                raise ValueError(f"the packing is of {cu_seqlens.time} tokens, the input has {time}")
            return cu_seqlens if cu_seqlens.bounds.device == x.device else cu_seqlens.to(x.device)
        _check_type(cu_seqlens)
        if len(cu_seqlens) < 2:
            _lengths(cu_seqlens.tolist(), time)  # raises, and says what is wrong
        lengths = None if _host_must_not_read(cu_seqlens) else _lengths(cu_seqlens.tolist(), time)
        # contiguous: kernels read the bounds one after the other
        return Packing(cu_seqlens.to(x.device, torch.int64).contiguous(), time, lengths)

    @staticmethod
    def of_batch(x: Tensor) -> Packing:
        """Return the packing of the rows of a batch x [B, T, ...], laid end to end."""
        batch, time = x.shape[:2]
        bounds = time * torch.arange(batch + 1, device=x.device)
        return Packing(bounds, batch * time, (time,) * batch)

    def to(self, device: torch.device) -> Packing:
        return Packing(self.bounds.to(device), self.time, self.checked_lengths)

    @property
    def sequences(self) -> int:
        return self.bounds.shape[0] - 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of every sequence."""
        if self.checked_lengths is not None:
            return self.checked_lengths
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break(
                msg="this layer reads the lengths of packed sequences on the host: leave out fullgraph=True"
            )
        return _lengths(self.bounds.tolist(), self.time)

    def sequence_of_token(self) -> Int[Tensor, " T"]:
        """Return the number of the sequence that each token belongs to."""
        token = torch.arange(self.time, device=self.bounds.device)
        return torch.searchsorted(self.bounds[1:], token, right=True).clamp_max(self.sequences - 1)


def sequence_count(x: Tensor, packing: Packing | None) -> int:
    return x.shape[0] if packing is None else packing.sequences


def or_zeros(state: Tensor | None, like: Tensor, packing: Packing | None, *shape: int) -> Tensor:
    """Return the state, or zeros of `shape` with one row per sequence if it is None."""
    return like.new_zeros(sequence_count(like, packing), *shape) if state is None else state


def per_sequence(loop: Callable[..., tuple[Tensor, State]]) -> Callable[..., tuple[Tensor, State]]:
    """Return `loop(*sequences, initial_state, **constants)` with one more argument, `packing`.

    With a packing, it runs on each packed sequence by itself, from that sequence's row of the state.
    """

    @functools.wraps(loop)
    def run(*sequences: Tensor | None, initial_state: State, packing: Packing | None, **constants: Any) -> tuple[Tensor, State]:
        if packing is None:
            return loop(*sequences, initial_state=initial_state, **constants)
        lengths = packing.lengths
        pieces = zip(*([None] * len(lengths) if x is None else x.split(lengths, dim=1) for x in sequences), strict=True)
        results = [loop(*piece, initial_state=_row(initial_state, n), **constants) for n, piece in enumerate(pieces)]
        outputs, states = zip(*results, strict=True)
        return torch.cat(outputs, dim=1), _stack_rows(states)

    return run


@dataclass(frozen=True)
class ChunkTable:
    """The places of the chunks of packed sequences; all fields are None for a plain batch.

    A slot is the place of one chunk in tensors that hold one entry per chunk.
    """

    bounds: Tensor | None  # [S + 1] cu_seqlens
    chunk_starts: Tensor | None  # [S + 1] the slot of each sequence's first chunk
    chunk_sequence: Tensor | None  # [slots] the sequence of each slot

    @staticmethod
    def of(cu_seqlens: Tensor | None, tokens: int, slots: int) -> ChunkTable:
        """Return the table of `slots` chunks of `tokens` tokens, computed on the GPU without waiting for it.

        An unused slot counts as a chunk past the end of the last sequence.
        """
        if cu_seqlens is None:
            return ChunkTable(None, None, None)
        chunks = (cu_seqlens.diff() + tokens - 1) // tokens
        starts = torch.cat([chunks.new_zeros(1), chunks.cumsum(0)])
        places = torch.arange(slots, device=cu_seqlens.device)
        sequence = torch.searchsorted(starts[1:], places, right=True).clamp_max(cu_seqlens.shape[0] - 2)
        return ChunkTable(cu_seqlens, starts, sequence)


def _check_type(cu_seqlens: object) -> None:
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.ndim != 1 or cu_seqlens.is_floating_point():
        shown = f"{cu_seqlens!r}".replace("\n", " ")
        raise ValueError(f"cu_seqlens={shown:.80} must be a vector of whole numbers, such as torch.tensor([0, 3, 7])")


def _lengths(bounds: Sequence[int], time: int) -> tuple[int, ...]:
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != time:
        raise ValueError(f"cu_seqlens={_abridged(bounds)} must start at 0 and end at the number of tokens, {time}")
    lengths = tuple(end - start for start, end in pairwise(bounds))
    if min(lengths) < 1:
        raise ValueError(f"cu_seqlens={_abridged(bounds)} must grow: no sequence may be empty")
    return lengths


def _host_must_not_read(bounds: Tensor) -> bool:
    """Return whether a graph is being traced or captured: it must read the bounds at each run, not keep what the host read."""
    return torch.compiler.is_compiling() or (bounds.is_cuda and torch.cuda.is_current_stream_capturing())


def _abridged(bounds: Sequence[int]) -> str:
    return str(list(bounds)) if len(bounds) <= 8 else f"[{bounds[0]}, {bounds[1]}, ..., {bounds[-1]}]"


def _row(state: State, n: int) -> State:
    return tuple(s[n : n + 1] for s in state) if isinstance(state, tuple) else state[n : n + 1]


def _stack_rows(states: tuple[Any, ...]) -> State:
    if isinstance(states[0], tuple):
        return tuple(torch.cat(parts) for parts in zip(*states, strict=True))
    return torch.cat(states)
