"""Pattern stream: the letters of a pattern's rows and the machine's states after each, piece by piece, without end.

The first piece is random letters, whatever the pattern. A cycle of letters then leads every row into an orbit

    q_0 q_1 … q_f … q_{n-1} q_f … q_{n-1} …

which is found once, so that 10⁷ letters are looked up and not walked.

B rows  N letters of a piece
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from eigentrack.analysis.input_patterns import Pattern
from eigentrack.analysis.subject import Subject
from eigentrack.tasks.counter_random import derived_seed


class PatternStream:
    def __init__(self, subject: Subject, pattern: Pattern, seed: int) -> None:
        walk, self._transitions = subject.walk, subject.machine.transitions
        self._walk = walk if pattern.shares is None else replace(walk, shares=pattern.shares, live=None, escape=1.0)
        self._cycle, self._seed = pattern.cycle, derived_seed(seed, pattern.name)
        self._state = torch.full((pattern.rows,), subject.machine.start)
        self._orbits: list[_Orbit] = []
        self._pieces, self._turned = 0, 0  # pieces read, and letters of the cycle

    def read(self, count: int) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        """The next `count` letters, and the state after each."""
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
        """The first rows go on alone."""
        self._state, self._orbits = self._state[:rows], self._orbits[:rows]

    def _turn(self, count: int) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        time = np.arange(self._turned, self._turned + count)
        self._turned += count
        letters = torch.from_numpy(np.array(self._cycle)[time % len(self._cycle)])
        states = torch.from_numpy(np.stack([orbit.at(time) for orbit in self._orbits]))
        return letters.expand(len(states), -1), states


@dataclass(frozen=True)
class _Orbit:
    """States after 1, 2, … letters; from the last one it goes back to number `first`."""

    states: NDArray[np.int64]
    first: int

    def at(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        period = len(self.states) - self.first
        return self.states[np.where(time < self.first, time, self.first + (time - self.first) % period)]


def _orbit(transitions: Sequence[Sequence[int]], state: int, cycle: Sequence[int]) -> _Orbit:
    """Until the cycle of letters begins in a state in which it began before."""
    begun: dict[int, int] = {}
    states: list[int] = []
    while state not in begun:
        begun[state] = len(states)
        for letter in cycle:
            state = transitions[state][letter]
            states.append(state)
    return _Orbit(np.array(states), begun[state])
