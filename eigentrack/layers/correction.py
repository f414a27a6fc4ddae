"""Correction: every C tokens the memory of a recurrence becomes the nearest of M codes, c_m with m = argmin ‖H - c_m‖.

Between corrections nothing changes: layers stay linear, and forward passes parallel over time. Tokens are counted per sequence
from its first one; the number of tokens since the last correction, the phase, is part of what a sequence carries. Why a
corrected network keeps its state for ever is derived in docs/derivations/correction.md.

A long sequence is read in segments that end where corrections are due. If a table says which code a token makes of which
(successors), it foretells the code at the start of every segment, all segments are read at once, and the codes at their ends
show whether the table was right. It never decides anything: where it is wrong, segments are read one after the other.

B batch  T time  S sequences  M codes  G segments  N tokens of all sequences  V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from eigentrack.layers.validation import require_positive
from eigentrack.ops.shared.packing import Packing

Parts = tuple[Tensor, ...]  # what sequences carry, one row per sequence: all memories, then all windows of convolutions
Read = Callable[[Tensor, Parts, Packing | None], tuple[Tensor, Parts]]  # a forward pass without corrections


@dataclass(frozen=True)
class CorrectionSize:
    """The number of codes of a correction, and the number of tokens from one correction to the next."""

    codes: int
    every: int

    def __post_init__(self) -> None:
        require_positive(codes=self.codes, every=self.every)

    @classmethod
    def from_json(cls, values: Any) -> CorrectionSize:
        """Return the size for JSON values."""
        if not isinstance(values, dict) or set(values) != {"codes", "every"}:
            raise ValueError(f"correction={values!r} must hold the numbers codes and every")
        return cls(**values)


class Correction(nn.Module):
    """The codes of one or more recurrent layers, and when their memories are set to the nearest one.

    A code is a joint one: it has a value for every memory, and one decision sets all of them. Code 0 is the memory before the
    first token.

    Args:
        shapes: the shape of each memory of one sequence.
        size: the number of codes, and the number of tokens from one correction to the next.
        tokens: the number of tokens of the table of successors; None: there is none.
        dtype: the float type of the memories.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        size: CorrectionSize,
        tokens: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.size, self.shapes = size, tuple(tuple(shape) for shape in shapes)
        for number, shape in enumerate(self.shapes):
            self.register_buffer(f"codes_{number}", torch.zeros(size.codes, *shape, dtype=dtype))
        self.successors: Tensor | None
        self.register_buffer("successors", None if tokens is None else torch.zeros(size.codes, tokens, dtype=torch.int64))

    @property
    def every(self) -> int:
        return self.size.every

    @property
    def codes(self) -> Parts:
        """The value of each memory in every code, each [M, ...]."""
        return tuple(self.get_buffer(f"codes_{number}") for number in range(len(self.shapes)))

    def start(self, sequences: int) -> Parts:
        """Return the memories before the first token."""
        return tuple(code[:1].expand(sequences, *code.shape[1:]) for code in self.codes)

    def nearest(self, memories: Sequence[Tensor]) -> Int[Tensor, " S"]:
        """Return the number of the nearest code of each sequence, in float64: a GPU may round products of float32 to TF32."""
        points, codes = _vectors(memories), _vectors(self.codes)
        with torch.autocast(points.device.type, enabled=False):
            return (codes.square().sum(1) - 2 * points @ codes.mT).argmin(1)

    def corrected(self, memories: Sequence[Tensor], due: Bool[Tensor, " S"]) -> tuple[Parts, Int[Tensor, " S"]]:
        """Return the memories, those of the sequences that are due set to the nearest code, and the number of that code."""
        numbers = self.nearest(memories)
        set_to = (code[numbers].to(memory.dtype) for code, memory in zip(self.codes, memories, strict=True))
        chosen = (
            torch.where(due.view(-1, *[1] * (memory.ndim - 1)), code, memory)
            for code, memory in zip(set_to, memories, strict=True)
        )
        return tuple(chosen), numbers

    def step(self, parts: Parts, phase: Int[Tensor, " S"]) -> tuple[Parts, Int[Tensor, " S"]]:
        """Return what sequences carry after a token, corrected where it is due, and their new phases."""
        phase = phase + 1
        due = phase == self.every
        memories, _ = self.corrected(parts[: len(self.shapes)], due)
        return (*memories, *parts[len(self.shapes) :]), torch.where(due, 0, phase)

    def read(
        self,
        read: Read,
        x: Tensor,
        parts: Parts,
        phase: Int[Tensor, " S"],
        packing: Packing | None,
        tokens: Int[Tensor, "B T"] | None = None,
    ) -> tuple[Tensor, Parts, Int[Tensor, " S"]]:
        """Read sequences with corrections; return the outputs, what the sequences carry afterwards, and their phases.

        Args:
            read: reads sequences without corrections.
            x: what is read, [B, T, ...].
            parts: what the sequences carry before the first token.
            phase: the number of tokens of each sequence since its last correction.
            packing: the bounds of packed sequences; None for a plain batch.
            tokens: the tokens, if `read` computes the outputs from them alone; None: segments are read one after the other.
        """
        segments = _Segments.of(x, phase, packing, self.every)
        flat = x.flatten(0, 1)
        if tokens is not None and self.successors is not None and len(parts) == len(self.shapes):
            y, parts = self._read_at_once(read, flat, parts, segments, tokens.flatten())
        else:
            y, parts = self._read_in_turn(read, flat, parts, segments)
        return y.unflatten(0, x.shape[:2]), parts, segments.last_phase

    def _read_in_turn(self, read: Read, x: Tensor, parts: Parts, segments: _Segments) -> tuple[Tensor, Parts]:
        """Read the first segments of all sequences, then the second ones, and so on: x [N, ...] → y [N, ...]."""
        outputs, places = [], []
        for turn in range(segments.turns):
            chosen = segments.in_turn(turn)
            y, after = _read_segments(read, x, _rows(parts, chosen.sequence), chosen)
            memories, _ = self.corrected(after[: len(self.shapes)], chosen.is_full)
            parts = _put(parts, (*memories, *after[len(self.shapes) :]), chosen.sequence)
            outputs.append(y)
            places.append(chosen.places)
        return torch.cat(outputs)[torch.cat(places).argsort()], parts

    def _read_at_once(
        self, read: Read, x: Tensor, parts: Parts, segments: _Segments, tokens: Int[Tensor, " N"]
    ) -> tuple[Tensor, Parts]:
        """Read all segments at once, from the codes that the table of successors foretells, if it foretells all of them."""
        if bool((segments.first_phase > 0).any()):  # what these sequences carry is no code: read on to where it is
            head, rest = segments.split()
            y, parts = self._read_in_turn(read, x[head.places], parts, head.moved_together())
            if len(rest) == 0:
                return y, parts
            z, parts = self._read_at_once(read, x[rest.places], parts, rest.moved_together(), tokens[rest.places])
            return torch.cat([y, z])[torch.cat([head.places, rest.places]).argsort()], parts
        if segments.turns == 1:
            return self._read_in_turn(read, x, parts, segments)
        known = self.nearest(parts)
        guessed = self._foretold(known, segments, tokens)
        is_first = segments.turn == 0
        before = tuple(
            torch.where(is_first.view(-1, *[1] * (part.ndim - 1)), part[segments.sequence], code[guessed].to(part.dtype))
            for part, code in zip(parts, self.codes, strict=True)
        )
        y, after = _read_segments(read, x, before, segments)
        memories, numbers = self.corrected(after, segments.is_full)
        follows = torch.arange(len(segments), device=x.device)[~is_first]
        if not torch.equal(numbers[follows - 1], guessed[follows]):
            return self._read_in_turn(read, x, parts, segments)
        last = torch.ones_like(is_first)
        last[follows - 1] = False
        return y, _put(parts, _rows(memories, last), segments.sequence[last])

    def _foretold(self, known: Int[Tensor, " S"], segments: _Segments, tokens: Int[Tensor, " N"]) -> Int[Tensor, " G"]:
        """Return the code at the start of every segment: known for the first of a sequence, foretold for the others."""
        assert self.successors is not None
        maps = torch.arange(self.size.codes, device=tokens.device).expand(len(segments), -1)  # [G, M] start → end of a segment
        for offset in range(self.every):
            inside = offset < segments.length
            token = tokens[(segments.first + offset).clamp_max(len(tokens) - 1)]
            maps = torch.where(inside[:, None], self.successors[maps, token[:, None]], maps)
        codes = known[segments.sequence]
        for turn in range(1, segments.turns):
            here = torch.nonzero(segments.turn == turn)[:, 0]
            codes[here] = maps[here - 1, codes[here - 1]]
        return codes


@dataclass(frozen=True)
class _Segments:
    """Segments of sequences that end where corrections are due or where the sequence ends, in the order of their tokens."""

    first: Int[Tensor, " G"]  # the number of the first token among all tokens
    length: Int[Tensor, " G"]
    sequence: Int[Tensor, " G"]
    turn: Int[Tensor, " G"]  # 0 for the first segment of a sequence
    is_full: Bool[Tensor, " G"]  # whether a correction is due at the end
    first_phase: Int[Tensor, " S"]
    last_phase: Int[Tensor, " S"]

    def __len__(self) -> int:
        return len(self.first)

    @staticmethod
    def of(x: Tensor, phase: Int[Tensor, " S"], packing: Packing | None, every: int) -> _Segments:
        device = x.device
        if packing is None:
            length = torch.full((x.shape[0],), x.shape[1], device=device)
            first = torch.arange(x.shape[0], device=device) * x.shape[1]
        else:
            first, length = packing.bounds[:-1], packing.bounds.diff()
        counts = (phase + length + every - 1) // every  # segments of each sequence
        sequence = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
        turn = torch.arange(len(sequence), device=device) - (counts.cumsum(0) - counts)[sequence]
        begin = (turn * every - phase[sequence]).clamp_min(0)
        end = torch.minimum((turn + 1) * every - phase[sequence], length[sequence])
        is_full = end == (turn + 1) * every - phase[sequence]
        return _Segments(first[sequence] + begin, end - begin, sequence, turn, is_full, phase, (phase + length) % every)

    @property
    def turns(self) -> int:
        return int(self.turn.max()) + 1

    @property
    def places(self) -> Int[Tensor, " N"]:
        """The numbers of the tokens of all segments, in the order of the segments."""
        start = self.length.cumsum(0) - self.length
        within = torch.arange(int(self.length.sum()), device=self.first.device) - torch.repeat_interleave(start, self.length)
        return torch.repeat_interleave(self.first, self.length) + within

    def in_turn(self, turn: int) -> _Segments:
        return self._only(self.turn == turn)

    def split(self) -> tuple[_Segments, _Segments]:
        """Return the first segments of the sequences whose phase is not 0, and all others, as if they followed phase 0."""
        late = self.first_phase > 0
        heads = (self.turn == 0) & late[self.sequence]
        rest = self._only(~heads)
        turn = rest.turn - late[rest.sequence].long()
        return self._only(heads), _replaced(rest, turn=turn, first_phase=torch.zeros_like(self.first_phase))

    def moved_together(self) -> _Segments:
        """Return the same segments of the row of their tokens alone."""
        return _replaced(self, first=self.length.cumsum(0) - self.length)

    def _only(self, chosen: Bool[Tensor, " G"]) -> _Segments:
        picked = {name: getattr(self, name)[chosen] for name in ("first", "length", "sequence", "turn", "is_full")}
        return _replaced(self, **picked)


def _replaced(segments: _Segments, **values: Tensor) -> _Segments:
    return _Segments(**{**vars(segments), **values})


def _read_segments(read: Read, x: Tensor, parts: Parts, segments: _Segments) -> tuple[Tensor, Parts]:
    """Read segments, each from its own row of `parts`: x [N', ...] → y [n, ...], n the tokens of the segments."""
    length, places = int(segments.length[0]), segments.places
    pieces = x if len(places) == len(x) and segments.first[0] == 0 else x[places]
    if bool((segments.length == length).all()):
        y, after = read(pieces.unflatten(0, (len(segments), length)), parts, None)
        return y.flatten(0, 1), after
    bounds = torch.cat([segments.length.new_zeros(1), segments.length.cumsum(0)])
    y, after = read(pieces[None], parts, Packing.of(pieces[None], bounds))
    return y[0], after


def _rows(parts: Parts, rows: Tensor) -> Parts:
    return tuple(part[rows] for part in parts)


def _put(parts: Parts, rows: Parts, at: Int[Tensor, " n"]) -> Parts:
    return tuple(part.index_copy(0, at, row.to(part.dtype)) for part, row in zip(parts, rows, strict=True))


def _vectors(parts: Sequence[Tensor]) -> Float[Tensor, "S D"]:
    """Return what all memories hold as one vector per sequence; an empty memory's scale of -inf (mLSTM, sLSTM) counts as 0."""
    return torch.nan_to_num(torch.cat([part.flatten(1).double() for part in parts], 1), neginf=0.0)
