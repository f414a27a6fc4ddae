"""Input patterns: words that make a network fail early, besides the random ones that it was trained on.

    random        as in training
    rare          letters drawn the more often the rarer they are in training
    one letter    a short random word, then aaaa… for ever; "ignored" where the letter changes no state
    two letters   a short random word, then abab… for ever

B rows  N letters of a piece
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, count

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.analysis.subject import Subject
from eigentrack.tasks.counter_random import derived_seed

MOST_CYCLES = 64  # patterns of one and of two letters each; beyond, a random choice
LEAD_IN = 32  # random letters before a cycle: its rows begin in different states


@dataclass(frozen=True)
class Pattern:
    """Random words where `cycle` is empty, otherwise the cycle's letters over and over; `rows` words of it are tried."""

    name: str
    rows: int
    cycle: tuple[int, ...] = ()
    shares: tuple[float, ...] | None = None  # of the random letters; None: as in training


def input_patterns(subject: Subject, random_rows: int, cycle_rows: int, seed: int) -> tuple[Pattern, ...]:
    """At least one row each."""
    if min(random_rows, cycle_rows) < 1:
        raise ValueError(f"random_rows={random_rows} and cycle_rows={cycle_rows} must be at least 1")
    machine = subject.machine
    letters, ignored = range(len(machine.letters)), machine.ignored()
    patterns = [Pattern("random", random_rows)]
    if (shares := _rare_shares(subject, seed)) is not None:
        patterns.append(Pattern("rare letters", random_rows, shares=shares))
    for letter in _some([(letter,) for letter in letters], seed):
        kind = "ignored " if letter[0] in ignored else ""
        patterns.append(Pattern(f"{kind}{machine.letters[letter[0]]} for ever", cycle_rows, letter))
    for pair in _some(list(combinations(letters, 2)), seed):
        patterns.append(Pattern(", ".join(machine.letters[a] for a in pair) + " in turn", cycle_rows, pair))
    return tuple(patterns)


def stream_pattern(
    subject: Subject, pattern: Pattern, piece: int, seed: int
) -> Iterator[tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]]:
    """Letters and the machine's states after each, without end: LEAD_IN letters, then piece by piece."""
    seed = derived_seed(seed, pattern.name)
    walk = subject.walk
    if pattern.shares is not None:
        walk = replace(walk, shares=pattern.shares, live=None, escape=1.0)
    state = torch.full((pattern.rows,), subject.machine.start)
    if not pattern.cycle:
        for step in count():
            letters, states = walk(state, piece if step else LEAD_IN, seed, step)
            state = states[:, -1]
            yield letters, states[:, 1:]
    letters, states = walk(state, LEAD_IN, seed, 0)
    yield letters, states[:, 1:]
    table, now = np.array(subject.machine.transitions), states[:, -1].numpy()
    for first in count(0, piece):
        word = np.array(pattern.cycle)[np.arange(first, first + piece) % len(pattern.cycle)]
        after = np.empty((piece, pattern.rows), dtype=np.int64)
        for t, letter in enumerate(word):
            after[t] = now = table[now, letter]
        yield torch.from_numpy(word).expand(pattern.rows, -1), torch.from_numpy(after.T.copy())


def _rare_shares(subject: Subject, seed: int) -> tuple[float, ...] | None:
    """The reciprocals of how often each letter comes in training; None where all come alike."""
    if subject.walk.shares is None and subject.walk.escape == 1:
        return None
    start = torch.full((64,), subject.machine.start)
    letters, _ = subject.walk(start, 64, derived_seed(seed, "frequency"), 0)
    counts = torch.bincount(letters.flatten(), minlength=len(subject.machine.letters)).clamp_min(1)
    return tuple((1 / counts).tolist())


def _some(cycles: list[tuple[int, ...]], seed: int) -> list[tuple[int, ...]]:
    if len(cycles) <= MOST_CYCLES:
        return cycles
    chosen = np.random.default_rng(seed).choice(len(cycles), MOST_CYCLES, replace=False)
    return [cycles[place] for place in sorted(chosen)]
