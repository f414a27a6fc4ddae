"""Horizon: the longest length at which a network's answers still hold, for every pattern of input.

All patterns are streamed side by side with the network's state, so that 10⁷ letters take no more memory than 10³ (but for
attention's cache). A pattern is given up once it has been wrong for as long as it was right.

B rows  N letters of a piece
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool
from torch import Tensor

from eigentrack.analysis.input_patterns import LEAD_IN, Pattern, stream_pattern
from eigentrack.analysis.subject import Subject

HOLDS = 0.99  # of a pattern's rows must be right at every length up to the horizon
TOKENS_AT_ONCE = 2**16
LONGEST_PIECE = 4096
WIDENING = 1.1  # from one point of a curve to the next, beyond length 20


@dataclass(frozen=True)
class PatternHorizon:
    """`letters` is the horizon. A point of the curve is a length, and the mean accuracy since the point before."""

    pattern: str
    rows: int
    letters: int
    tested: int
    curve: tuple[tuple[int, float], ...]

    @property
    def is_open(self) -> bool:
        """It held as far as it was tested."""
        return self.letters == self.tested


@torch.no_grad()
def find_horizons(
    subject: Subject,
    patterns: Sequence[Pattern],
    longest: int,
    *,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[PatternHorizon, ...]:
    """`progress(letters done)` is called after every piece."""
    if longest < 1:
        raise ValueError(f"longest={longest} must be at least 1")
    rows = sum(pattern.rows for pattern in patterns)
    piece = max(64, min(LONGEST_PIECE, TOKENS_AT_ONCE // (rows * subject.tokens_per_letter)))
    trials = [_Trial(subject, pattern, piece, seed) for pattern in patterns]
    answers = torch.tensor(subject.machine.outputs)
    _, state = subject.begin(rows)
    running, done = list(trials), 0
    while done < longest and running:
        pairs = [next(trial.stream) for trial in running]
        count = min(pairs[0][0].shape[1], longest - done)
        letters, states = (torch.cat(parts)[:, :count] for parts in zip(*pairs, strict=True))
        logits, state = subject.read(letters.to(subject.device), state)
        right = (logits.argmax(-1).cpu() == answers[states]).split([trial.pattern.rows for trial in running])
        for trial, own in zip(running, right, strict=True):
            trial.add(own)
        done += count
        kept = [not trial.is_settled for trial in running]
        if not all(kept):
            of_row = torch.repeat_interleave(torch.tensor(kept), torch.tensor([trial.pattern.rows for trial in running]))
            state = state.select(torch.nonzero(of_row)[:, 0].to(subject.device))
            running = [trial for trial in running if not trial.is_settled]
        if progress is not None:
            progress(done)
    return tuple(trial.result() for trial in trials)


class _Trial:
    """One pattern while it is streamed."""

    def __init__(self, subject: Subject, pattern: Pattern, piece: int, seed: int) -> None:
        self.pattern, self.stream = pattern, stream_pattern(subject, pattern, piece, seed)
        self._horizon: int | None = None
        self._tested = 0
        self._curve: list[tuple[int, float]] = []
        self._since_point: list[Tensor] = []

    def add(self, right: Bool[Tensor, "B N"]) -> None:
        share = right.double().mean(0)
        wrong = torch.nonzero(share < HOLDS)
        if self._horizon is None and len(wrong):
            self._horizon = self._tested + int(wrong[0])
        for value in share.split(self._cuts(len(share))):
            self._since_point.append(value)
            self._tested += len(value)
            if self._tested == self._next_point:
                self._close_point()

    @property
    def is_settled(self) -> bool:
        return self._horizon is not None and self._tested >= 2 * self._horizon + LEAD_IN

    def result(self) -> PatternHorizon:
        if self._since_point:
            self._close_point()
        letters = self._tested if self._horizon is None else self._horizon
        return PatternHorizon(self.pattern.name, self.pattern.rows, letters, self._tested, tuple(self._curve))

    @property
    def _next_point(self) -> int:
        last = self._curve[-1][0] if self._curve else 0
        return _next_point(last)

    def _cuts(self, count: int) -> list[int]:
        """The lengths of the parts of a piece between the points of the curve."""
        ends, last, end = [self._tested], self._next_point, self._tested + count
        while last < end:
            ends.append(last)
            last = _next_point(last)
        ends.append(end)
        return [after - before for before, after in pairwise(ends)]

    def _close_point(self) -> None:
        self._curve.append((self._tested, round(float(torch.cat(self._since_point).mean()), 4)))
        self._since_point = []


def _next_point(length: int) -> int:
    return max(length + 1, int(length * WIDENING))
