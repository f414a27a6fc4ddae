"""Word patterns: random words as in training, and words on which networks fail earlier; all are read piece by piece.

random        as in training
rare          random letters, each the more frequent the rarer it is in training
one letter    a short random word, then aaaa… for ever; named "ignored" if the letter changes no state
two letters   a short random word, then abab… for ever

A stream gives the letters of a pattern's rows and the machine's state after each letter, without end. The first piece is random
letters for every pattern. A cycle of letters then leads every row into an orbit

    q_0 q_1 … q_f … q_{n-1} q_f … q_{n-1} …

which is computed once; the states after 10⁷ letters are then looked up in it.

B rows  N letters of a piece
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.tasks.counter_random import derived_seed

MOST_CYCLES = 64  # the most patterns of one letter, and of two letters; chosen at random if there are more
LEAD_IN = 32  # random letters before a cycle, so that its rows begin in different states


@dataclass(frozen=True)
class Pattern:
    """A kind of words: random ones, or a cycle of letters that repeats for ever."""

    name: str
    rows: int  # how many words are tried
    cycle: tuple[int, ...] = ()  # the letters that repeat; empty for random words
    shares: tuple[float, ...] | None = None  # the relative frequencies of random letters; None: as in training


def input_patterns(network: InspectedNetwork, random_rows: int, cycle_rows: int, seed: int) -> tuple[Pattern, ...]:
    """Return all patterns for a network.

    Args:
        network: the network and the machine that it should be.
        random_rows: the number of words of a random pattern.
        cycle_rows: the number of words of a pattern of one or two letters.
        seed: of the choice of patterns, if there are more than MOST_CYCLES of a kind, and of letter frequencies.
    """
    if min(random_rows, cycle_rows) < 1:
        raise ValueError(f"random_rows={random_rows} and cycle_rows={cycle_rows} must be at least 1")
    machine = network.machine
    letters, ignored = range(len(machine.letters)), machine.ignored()
    patterns = [Pattern("random", random_rows)]
    if (shares := _rare_shares(network, seed)) is not None:
        patterns.append(Pattern("rare letters", random_rows, shares=shares))
    for letter in _some([(letter,) for letter in letters], seed):
        kind = "ignored " if letter[0] in ignored else ""
        patterns.append(Pattern(f"{kind}{machine.letters[letter[0]]} for ever", cycle_rows, letter))
    for pair in _some(list(combinations(letters, 2)), seed):
        patterns.append(Pattern(", ".join(machine.letters[a] for a in pair) + " in turn", cycle_rows, pair))
    return tuple(patterns)


def _rare_shares(network: InspectedNetwork, seed: int) -> tuple[float, ...] | None:
    """Return the reciprocals of the counts of each letter in training words; None if all letters are equally frequent."""
    if network.walk.shares is None and network.walk.escape == 1:
        return None
    start = torch.full((64,), network.machine.start)
    letters, _ = network.walk(start, 64, derived_seed(seed, "frequency"), 0)
    counts = torch.bincount(letters.flatten(), minlength=len(network.machine.letters)).clamp_min(1)
    return tuple((1 / counts).tolist())


def _some(cycles: list[tuple[int, ...]], seed: int) -> list[tuple[int, ...]]:
    if len(cycles) <= MOST_CYCLES:
        return cycles
    chosen = np.random.default_rng(seed).choice(len(cycles), MOST_CYCLES, replace=False)
    return [cycles[place] for place in sorted(chosen)]


class PatternStream:
    """The endless words of one pattern, read piece by piece."""

    def __init__(self, network: InspectedNetwork, pattern: Pattern, seed: int) -> None:
        walk, self._transitions = network.walk, network.machine.transitions
        self._walk = walk if pattern.shares is None else replace(walk, shares=pattern.shares, live=None, escape=1.0)
        self._cycle, self._seed = pattern.cycle, derived_seed(seed, pattern.name)
        self._state = torch.full((pattern.rows,), network.machine.start)
        self._orbits: list[_Orbit] = []
        self._pieces, self._turned = 0, 0  # how many pieces, and how many letters of the cycle, have been read

    def read(self, count: int) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        """Return the next `count` letters, and the machine's state after each."""
        is_first = self._pieces == 0
        self._pieces += 1
        if self._cycle and not is_first:
            return self._turn(count)
        letters, states = self._walk(self._state, count, self._seed, self._pieces - 1)
        self._state = states[:, -1]
        if self._cycle:
            self._orbits = [_orbit(self._transitions, state, self._cycle) for state in self._state.tolist()]
        return letters, states[:, 1:]

    def keep(self, rows: int) -> None:
        """Keep the first `rows` rows and drop the others."""
        self._state, self._orbits = self._state[:rows], self._orbits[:rows]

    def _turn(self, count: int) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        time = np.arange(self._turned, self._turned + count)
        self._turned += count
        letters = torch.from_numpy(np.array(self._cycle)[time % len(self._cycle)])
        states = torch.from_numpy(np.stack([orbit.at(time) for orbit in self._orbits]))
        return letters.expand(len(states), -1), states


@dataclass(frozen=True)
class _Orbit:
    """The states after 1, 2, … letters of a repeated cycle; after the last state, number `first` follows."""

    states: NDArray[np.int64]
    first: int

    def at(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        period = len(self.states) - self.first
        return self.states[np.where(time < self.first, time, self.first + (time - self.first) % period)]


def _orbit(transitions: Sequence[Sequence[int]], state: int, cycle: Sequence[int]) -> _Orbit:
    """Return the orbit of a state under the repeated cycle, which closes when the cycle begins in the same state again."""
    begun: dict[int, int] = {}
    states: list[int] = []
    while state not in begun:
        begun[state] = len(states)
        for letter in cycle:
            state = transitions[state][letter]
            states.append(state)
    return _Orbit(np.array(states), begun[state])
