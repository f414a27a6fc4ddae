"""A random walk through an automaton: letters, and the states before and after each of them.

A letter is drawn either from the whole alphabet or from the letters that lead to a live state. In both cases the random numbers
at t define a map from every state to the next one. Maps compose associatively, so an associative scan over maps replaces the
loop over time if there are few states; for a group, a scan over products of elements does. Only large automata are walked
letter by letter.

B sequences  N letters of a sequence  Q states  A letters of the alphabet
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.tasks.associative_scan import associative_scan
from eigentrack.tasks.counter_random import random_integers
from eigentrack.tasks.task import DeviceTables

FEW_STATES = 16  # with more states, composing the maps of all states costs more than a loop over time
_SCALE = 2**31


@dataclass(frozen=True)
class AutomatonWalk:
    """A sampler of random walks through one automaton."""

    transitions: tuple[tuple[int, ...], ...]  # Q A, the next state for every state and letter
    shares: tuple[float, ...] | None  # how often each letter is drawn, relative to the others; None: equally often
    live: frozenset[int] | None  # the states that restricted draws lead to; None: all states
    escape: float  # probability of drawing a letter from the whole alphabet instead of from those that lead to live states
    # the multiplication table of a group whose elements are the states, with the identity as state 0, if letters act on the
    # states by multiplication; None for other automata
    products: tuple[tuple[int, ...], ...] | None
    stages: tuple[tuple[int, ...], ...] | None = None  # sets of letters, to one of which a walk may be restricted

    def __call__(
        self, start: Int[Tensor, " B"], count: int, seed: int, step: int | Tensor, stage: Int[Tensor, "1"] | None = None
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N+1"]]:
        """Return the letters of `count` steps from the start states, and the states before and after each.

        Args:
            start: the states before the first letters.
            count: the number of letters.
            seed: the seed of all draws.
            step: the step that draws, or a vector of n steps (see `random_integers`).
            stage: the number of the set in `stages` whose letters alone are drawn; None: all letters are.
        """
        draw = partial(random_integers, _SCALE, (len(start), count), seed=seed, step=step, device=start.device)
        number = draw(stream=1)
        letter = torch.bucketize(number, self._of_stage(self._draws, stage, start.device)[0], right=True)
        if self.products is not None:
            return letter, self._multiply(start, letter)
        is_free = draw(stream=2) < int(self.escape * _SCALE) if self.escape < 1 else None
        if len(self.transitions) <= FEW_STATES:
            return self._compose(start, letter, number, is_free, stage)
        return self._follow(start, letter, number, is_free, stage)

    def _multiply(self, start: Int[Tensor, " B"], letter: Int[Tensor, "B N"]) -> Int[Tensor, "B N+1"]:
        table, products = self._tables.on(start.device)
        (prefix,) = associative_scan(lambda earlier, later: (products[earlier[0], later[0]],), table[0][letter])
        return torch.cat([start[:, None], products[start[:, None], prefix]], 1)

    def _compose(
        self,
        start: Int[Tensor, " B"],
        letter: Int[Tensor, "B N"],
        number: Int[Tensor, "B N"],
        is_free: Tensor | None,
        stage: Tensor | None,
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N+1"]]:
        table, _ = self._tables.on(start.device)
        every = torch.arange(len(self.transitions), device=start.device)
        free = None if is_free is None else is_free[..., None]
        letters = self._letter_in(every, letter[..., None], number[..., None], free, stage)
        maps = table[every, letters]  # B N Q
        (prefix,) = associative_scan(lambda earlier, later: (later[0].gather(2, earlier[0]),), maps)
        after = prefix.gather(2, start[:, None, None].expand(-1, maps.shape[1], 1)).squeeze(2)
        states = torch.cat([start[:, None], after], 1)
        return letters.expand_as(maps).gather(2, states[:, :-1, None]).squeeze(2), states

    def _follow(
        self,
        start: Int[Tensor, " B"],
        letter: Int[Tensor, "B N"],
        number: Int[Tensor, "B N"],
        is_free: Tensor | None,
        stage: Tensor | None,
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N+1"]]:
        table, _ = self._tables.on(start.device)
        states, letters = [start], []
        for t in range(letter.shape[1]):
            free = None if is_free is None else is_free[:, t]
            letters.append(self._letter_in(states[-1], letter[:, t], number[:, t], free, stage))
            states.append(table[states[-1], letters[-1]])
        return torch.stack(letters, 1), torch.stack(states, 1)

    def _letter_in(self, state: Tensor, letter: Tensor, number: Tensor, is_free: Tensor | None, stage: Tensor | None) -> Tensor:
        """Return the letter that is read in `state`: `letter` where `is_free`, elsewhere one that leads to a live state."""
        if is_free is None:
            return letter
        _, choices, choice_count = self._of_stage(self._draws, stage, state.device)
        return torch.where(is_free, letter, choices[state, number * choice_count[state] >> 31])

    @staticmethod
    def _of_stage(tables: DeviceTables, stage: Tensor | None, device: torch.device) -> tuple[Tensor, ...]:
        """Return the tables of one stage, each of which is stacked over all stages, or the last: that of all letters."""
        if stage is None:
            return tuple(table[-1] for table in tables.on(device))
        return tuple(table.index_select(0, stage)[0] for table in tables.on(device))

    @cached_property
    def _tables(self) -> DeviceTables:
        """The transitions, and the products."""
        return DeviceTables(torch.tensor(self.transitions), torch.tensor(self.products or ((0,),)))

    @cached_property
    def _draws(self) -> DeviceTables:
        """The tables by which letters are drawn, for each stage and at last for all letters.

        In order: the thresholds that assign random numbers below 2³¹ to letters, the letters that lead from each state to a
        live one (all letters if none does), and the number of those letters.
        """
        every = tuple(range(len(self.transitions[0])))
        of_stages = [self._draws_among(letters) for letters in (*(self.stages or ()), every)]
        return DeviceTables(*map(torch.stack, zip(*of_stages, strict=True)))

    def _draws_among(self, letters: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        count = len(self.transitions[0])
        chosen = torch.zeros(count, dtype=torch.float64)
        chosen[list(letters)] = 1
        shares = chosen if self.shares is None else chosen * torch.tensor(self.shares).double()
        thresholds = (shares.cumsum(0) / shares.sum() * _SCALE).round().long()[:-1]
        live = range(len(self.transitions)) if self.live is None else self.live
        kept = [[a for a in letters if row[a] in live] or list(letters) for row in self.transitions]
        padded = [row + row[:1] * (count - len(row)) for row in kept]
        return thresholds, torch.tensor(padded), torch.tensor([len(row) for row in kept])
