"""Reachable states: the joint states of a network up to a distance ρ, and their clusters.

A StateNet holds joint states, no two of them within ρ, such that every letter leads each to within ρ of one of them.

It is what the start and the states along random words generate: a state that lies within ρ of a known one counts as that one.
At ρ = 0 this is the closure by which the compiler proves a network; here ρ bridges what training left inexact.

Clusters are by single linkage: at resolution r two points are together if steps of at most r lead from one to the other. The
edges of a minimum spanning tree say it for every r: those longer than r are cut.

W random words  L letters of a word  n points  D numbers of a joint state
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork, state_vector
from eigentrack.automata.components import connected
from eigentrack.models.sequence_model import ModelState

UNASKED = -1  # the answer to the empty word where no token comes before the first letter
AT_ONCE = 1024  # joint states that are stepped together

Word = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A letter led from near one state to near another, where the network gave this answer; `word` comes before the letter."""

    before: int
    letter: int
    after: int
    answer: int
    word: Word


@dataclass(frozen=True)
class StateNet:
    """State 0 is the start. `steps` are all that were seen: every state by every letter, and those of the random words."""

    radius: float
    vectors: NDArray[np.float64]
    first_answer: int  # to the empty word
    steps: tuple[Step, ...]


@torch.no_grad()
def build_net(network: InspectedNetwork, letters: Int[Tensor, "W L"], radius: float, limit: int) -> StateNet | None:
    """None if it takes more than `limit` states."""
    net = _Net(network, radius, limit)
    first, state = network.begin(1)
    net.add(state, [()])
    _, state = network.begin(len(letters))
    before, words = [0] * len(letters), letters.tolist()
    for t in range(letters.shape[1]):
        before, state = net.step(before, [word[t] for word in words], [tuple(word[:t]) for word in words], state)
    if not net.close():
        return None
    first_answer = UNASKED if first is None else int(first.argmax())
    return StateNet(radius, net.vectors[: net.count], first_answer, tuple(net.steps))


class _Net:
    """A net while it grows."""

    def __init__(self, network: InspectedNetwork, radius: float, limit: int) -> None:
        _, start = network.begin(1)
        self.network, self.radius, self.limit = network, radius, limit
        self.vectors, self.count = np.empty((limit + 1, state_vector(start).shape[1])), 0
        self.words: list[Word] = []  # that lead to each state
        self.steps: list[Step] = []
        self._fresh: list[ModelState] = []  # the states that no letter was tried on yet, in their order

    def add(self, states: ModelState, words: list[Word]) -> list[int]:
        """The number of the known state within the radius of each; where there is none, it becomes known itself."""
        numbers, new = [], []
        for row, vector in enumerate(state_vector(states).cpu().numpy()):
            distances = np.linalg.norm(self.vectors[: self.count] - vector, axis=1)
            if self.count and distances.min() <= self.radius:
                numbers.append(int(distances.argmin()))
                continue
            numbers.append(min(self.count, self.limit))
            if self.count <= self.limit:
                self.vectors[self.count] = vector
                self.count += 1
                self.words.append(words[row])
                new.append(row)
        if new:
            self._fresh.append(states.select(torch.tensor(new, device=self.network.device)))
        return numbers

    def step(
        self, before: list[int], letters: list[int], words: list[Word], states: ModelState
    ) -> tuple[list[int], ModelState]:
        """One letter for each row, which stands near the state `before` after its word: near which it stands now."""
        logits, states = self.network.step(torch.tensor(letters, device=self.network.device), states)
        after = self.add(states, [(*word, letter) for word, letter in zip(words, letters, strict=True)])
        self.steps += map(Step, before, letters, after, logits.argmax(-1).tolist(), words)
        return after, states

    def close(self) -> bool:
        """Tries every letter on every state until nothing new comes up; False if there are more than the limit."""
        alphabet, done = range(len(self.network.machine.letters)), 0
        while self._fresh and self.count <= self.limit:
            states, self._fresh = ModelState.stack(self._fresh), []
            first, done = done, self.count
            for rows in torch.arange(done - first).split(max(1, AT_ONCE // len(alphabet))):
                before = [first + row for row in rows.tolist() for _ in alphabet]
                chosen = torch.tensor([number - first for number in before], device=self.network.device)
                self.step(before, [*alphabet] * len(rows), [self.words[number] for number in before], states.select(chosen))
                if self.count > self.limit:
                    return False
        return self.count <= self.limit


Points = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Linkage:
    """The edges of the spanning tree, longest first."""

    lengths: NDArray[np.float64]
    ends: Numbers  # n-1 2

    @property
    def resolutions(self) -> list[float]:
        """Where the clusters change, coarse to fine: all in one, then ever more clusters, down to equal points only."""
        return sorted({*self.lengths.tolist(), 0.0}, reverse=True)

    def clusters(self, resolution: float) -> Numbers:
        """The number of the cluster of every point."""
        return connected(len(self.lengths) + 1, *self.ends[self.lengths <= resolution].T)


def single_linkage(points: Points) -> Linkage:
    """Prim's algorithm: n rounds over n distances."""
    count = len(points)
    if count == 0:
        raise ValueError("there are no points to link")
    squares = (points**2).sum(1)
    nearest, parent = np.full(count, np.inf), np.zeros(count, dtype=np.int64)
    outside = np.ones(count, dtype=bool)
    lengths, ends, newest = [], [], 0
    for _ in range(count - 1):
        outside[newest] = False
        distance = squares + squares[newest] - 2 * points @ points[newest]
        closer = outside & (distance < nearest)
        nearest[closer], parent[closer] = distance[closer], newest
        newest = int(np.argmin(np.where(outside, nearest, np.inf)))
        # again without cancellation: equal points are at distance 0
        lengths.append(float(np.linalg.norm(points[newest] - points[parent[newest]])))
        ends.append((newest, int(parent[newest])))
    order = np.argsort(lengths)[::-1]
    return Linkage(np.array(lengths)[order], np.array(ends, dtype=np.int64).reshape(-1, 2)[order])
