"""Reachable states: the joint states of a network up to a distance ρ, and their clusters.

A StateNet holds joint states, no two of them within ρ, such that every letter leads each to within ρ of one of them.

The start and the states along random words generate the net: a state that lies within ρ of a known one counts as that one.
At ρ = 0 this is the closure by which the compiler proves a network; ρ > 0 tolerates what training left inexact.

The clusters are those of single linkage: at resolution r two points are in one cluster if steps of at most r lead from one to
the other. A minimum spanning tree gives the clusters for every r: edges longer than r are cut.

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

UNASKED = -1  # stands for the answer to the empty word if there are no opening tokens
AT_ONCE = 1024  # joint states that are stepped together

Word = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A step of the network by one letter, from near one state of the net to near another."""

    before: int  # the number of the state before the letter
    letter: int
    after: int  # the number of the state after the letter
    answer: int  # the network's answer to the letter
    word: Word  # the letters before this one


@dataclass(frozen=True)
class StateNet:
    """Joint states that are closed under all letters up to a radius."""

    radius: float  # ρ
    vectors: NDArray[np.float64]  # [n, D]; state 0 is the start
    first_answer: int  # the network's answer to the empty word
    steps: tuple[Step, ...]  # every letter from every state, and the steps along the random words


@torch.no_grad()
def build_net(network: InspectedNetwork, letters: Int[Tensor, "W L"], radius: float, limit: int) -> StateNet | None:
    """Return the net of joint states that the random words `letters` generate; None if it has more than `limit` states."""
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
    """A net under construction."""

    def __init__(self, network: InspectedNetwork, radius: float, limit: int) -> None:
        _, start = network.begin(1)
        self.network, self.radius, self.limit = network, radius, limit
        self.vectors, self.count = np.empty((limit + 1, state_vector(start).shape[1])), 0
        self.words: list[Word] = []  # one word that leads to each state
        self.steps: list[Step] = []
        self._fresh: list[ModelState] = []  # the states from which no letter has been tried, in order

    def add(self, states: ModelState, words: list[Word]) -> list[int]:
        """Return the number of the known state within the radius of each state; a state without one is added to the net."""
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
        """Read one letter per row; return the numbers of the states that the rows are near now, and the states themselves.

        `before` are the numbers of the states that the rows were near, `words` the letters that led there.
        """
        logits, states = self.network.step(torch.tensor(letters, device=self.network.device), states)
        after = self.add(states, [(*word, letter) for word, letter in zip(words, letters, strict=True)])
        self.steps += map(Step, before, letters, after, logits.argmax(-1).tolist(), words)
        return after, states

    def close(self) -> bool:
        """Try every letter from every state until no new state is found; return False if there are more than the limit."""
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
    """The edges of a minimum spanning tree, longest first."""

    lengths: NDArray[np.float64]  # [n-1]
    ends: Numbers  # the two points of each edge, [n-1, 2]

    @property
    def resolutions(self) -> list[float]:
        """The resolutions at which the clusters change, from one cluster of all points down to clusters of equal points."""
        return sorted({*self.lengths.tolist(), 0.0}, reverse=True)

    def clusters(self, resolution: float) -> Numbers:
        """Return the number of the cluster of every point."""
        return connected(len(self.lengths) + 1, *self.ends[self.lengths <= resolution].T)


def single_linkage(points: Points) -> Linkage:
    """Find a minimum spanning tree of the points [n, D] by Prim's algorithm, in n rounds over n distances."""
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
        # computed again without cancellation, so that equal points are at distance 0
        lengths.append(float(np.linalg.norm(points[newest] - points[parent[newest]])))
        ends.append((newest, int(parent[newest])))
    order = np.argsort(lengths)[::-1]
    return Linkage(np.array(lengths)[order], np.array(ends, dtype=np.int64).reshape(-1, 2)[order])
