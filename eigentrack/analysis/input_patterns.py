"""Input patterns: words that make a network fail early, besides the random ones that it was trained on.

random        as in training
rare          letters drawn the more often the rarer they are in training
one letter    a short random word, then aaaa… for ever; "ignored" where the letter changes no state
two letters   a short random word, then abab… for ever
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch

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
