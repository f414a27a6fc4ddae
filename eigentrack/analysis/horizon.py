"""Horizon: the longest length up to which a network's answers hold, for every pattern of input.

All patterns are streamed side by side with the network's state, so that 10⁷ letters take no more memory than 10⁵ (except for
attention's cache). A pattern ends at about twice its horizon; of the others, few rows are read beyond FAR letters.

`precision_sweep` finds the horizon of the same weights in float64, float32, bfloat16 and float16, and with subnormals flushed
to 0. Half-precision weights still carry a float32 state, as in training and decoding. If the horizon grows with the number of
bits, rounding limits it; otherwise the weights do.

B rows  N letters of a piece
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Bool
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.analysis.word_patterns import LEAD_IN, Pattern, PatternStream

HOLDS = 0.99  # the share of a pattern's rows that must be right at every length up to the horizon
TOKENS_AT_ONCE = 2**16
LONGEST_PIECE = 4096
FAR, FAR_ROWS = 100_000, 8  # beyond FAR letters at most FAR_ROWS rows per pattern go on: minutes, not hours, to 10⁷ letters
WIDENING = 1.1  # the ratio of the lengths of neighbouring points of a curve, beyond length 20


@dataclass(frozen=True)
class PatternHorizon:
    """The horizon of a network on one pattern of input."""

    pattern: str
    rows: int  # words of the pattern; beyond FAR letters at most FAR_ROWS of them were read
    letters: int  # the horizon
    tested: int  # the length up to which the pattern was read
    curve: tuple[tuple[int, float], ...]  # (length, mean accuracy since the length before it)

    @property
    def is_open(self) -> bool:
        """Whether the answers held as far as they were tested."""
        return self.letters == self.tested


def worst_first(horizons: Sequence[PatternHorizon]) -> list[PatternHorizon]:
    """Sort patterns by how early the network fails on them."""
    return sorted(horizons, key=lambda horizon: (horizon.letters, horizon.is_open))


@torch.no_grad()
def find_horizons(
    network: InspectedNetwork,
    patterns: Sequence[Pattern],
    longest: int,
    *,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[PatternHorizon, ...]:
    """Return the horizon of a network on each pattern.

    Args:
        network: the network and the machine that it should be.
        patterns: the words to read, from `input_patterns`.
        longest: the most letters that are read of a word.
        seed: of the random letters.
        progress: called with the number of letters done after every piece; None: nobody is told.
    """
    if longest < 1:
        raise ValueError(f"longest={longest} must be at least 1")
    trials = [_Trial(network, pattern, seed) for pattern in patterns]
    answers = torch.tensor(network.machine.outputs)
    _, state = network.begin(sum(trial.rows for trial in trials))
    running, done = trials, 0
    while done < longest and running:
        rows = sum(trial.rows for trial in running)
        piece = max(64, min(LONGEST_PIECE, TOKENS_AT_ONCE // (rows * network.tokens_per_letter))) if done else LEAD_IN
        count = min(piece, longest - done)
        letters, states = (torch.cat(parts) for parts in zip(*(trial.stream.read(count) for trial in running), strict=True))
        logits, state = network.read(letters.to(network.device), state)
        right = (logits.argmax(-1).cpu() == answers[states]).split([trial.rows for trial in running])
        for trial, own in zip(running, right, strict=True):
            trial.add(own)
        done += count
        goes_on = torch.cat([trial.thin_out() for trial in running])
        if not goes_on.all():
            state = state.select(torch.nonzero(goes_on)[:, 0].to(network.device))
            running = [trial for trial in running if trial.rows]
        if progress is not None:
            progress(done)
    return tuple(trial.result() for trial in trials)


class _Trial:
    """The rows, the answers so far and the curve of one pattern while it is streamed."""

    def __init__(self, network: InspectedNetwork, pattern: Pattern, seed: int) -> None:
        self.pattern, self.stream, self.rows = pattern, PatternStream(network, pattern, seed), pattern.rows
        self._horizon: int | None = None
        self._tested = 0
        self._curve: list[tuple[int, float]] = []
        self._right_since_point = 0.0

    def add(self, right: Bool[Tensor, "B N"]) -> None:
        share = right.double().mean(0)
        wrong = torch.nonzero(share < HOLDS)
        if self._horizon is None and len(wrong):
            self._horizon = self._tested + int(wrong[0])
        for value in share.split(self._cuts(len(share))):
            self._right_since_point += float(value.sum())
            self._tested += len(value)
            if self._tested == self._next_point:
                self._close_point()

    def thin_out(self) -> Bool[Tensor, " B"]:
        """Keep no row of a pattern that has ended, few of one beyond FAR letters; return which rows go on."""
        before = self.rows
        if self._horizon is not None and self._tested >= 2 * self._horizon + LEAD_IN:
            self.rows = 0
        elif self._tested >= FAR:
            self.rows = min(before, FAR_ROWS)
        self.stream.keep(self.rows)
        return torch.arange(before) < self.rows

    def result(self) -> PatternHorizon:
        if self._tested > self._last_point:
            self._close_point()
        letters = self._tested if self._horizon is None else self._horizon
        return PatternHorizon(self.pattern.name, self.pattern.rows, letters, self._tested, tuple(self._curve))

    @property
    def _last_point(self) -> int:
        return self._curve[-1][0] if self._curve else 0

    @property
    def _next_point(self) -> int:
        return _next_point(self._last_point)

    def _cuts(self, count: int) -> list[int]:
        """Return the lengths of the parts into which the points of the curve cut a piece."""
        ends, last, end = [self._tested], self._next_point, self._tested + count
        while last < end:
            ends.append(last)
            last = _next_point(last)
        ends.append(end)
        return [after - before for before, after in pairwise(ends)]

    def _close_point(self) -> None:
        mean = self._right_since_point / (self._tested - self._last_point)
        self._curve.append((self._tested, round(mean, 4)))
        self._right_since_point = 0.0


def _next_point(length: int) -> int:
    return max(length + 1, int(length * WIDENING))


PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
FLUSHED = "float32, flush to zero"


@dataclass(frozen=True)
class PrecisionHorizons:
    """The horizons of a network in one precision."""

    precision: str
    horizons: tuple[PatternHorizon, ...]

    @property
    def worst(self) -> PatternHorizon:
        return worst_first(self.horizons)[0]


def precision_sweep(
    network: InspectedNetwork,
    patterns: Sequence[Pattern],
    longest: int,
    *,
    seed: int,
    progress: Callable[[str, int], None] | None = None,
) -> tuple[PrecisionHorizons, ...]:
    """Return the horizons of the same weights in each precision; flushing is left out where the device cannot flush.

    Args:
        network: the network and the machine that it should be.
        patterns: the words to read, from `input_patterns`.
        longest: the most letters that are read of a word.
        seed: of the random letters.
        progress: called with the precision and its number of letters done after every piece; None: nobody is told.
    """
    cases = list(PRECISIONS)
    if network.device.type == "cpu" and _can_flush():
        cases.append(FLUSHED)
    found = []
    for name in cases:
        model = copy.deepcopy(network.model).to(PRECISIONS.get(name, torch.float32))

        def report(done: int, name: str = name) -> None:
            if progress is not None:
                progress(name, done)

        with _flushed() if name == FLUSHED else nullcontext():
            horizons = find_horizons(replace(network, model=model), patterns, longest, seed=seed, progress=report)
        found.append(PrecisionHorizons(name, horizons))
    return tuple(found)


def _can_flush() -> bool:
    possible = torch.set_flush_denormal(True)
    torch.set_flush_denormal(False)
    return possible


@contextmanager
def _flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
