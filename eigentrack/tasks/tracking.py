"""State-tracking tasks: read letters, and name the state of an automaton after each of them.

With k tokens per letter, only every k-th token is a letter and the others are fillers. The answer that takes a letter into
account is due k-1 tokens later: the target at token p is the answer after the first ⌊(p+1)/k⌋ letters.

B sequences  T time  Q states  A letters
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from eigentrack.automata import DFA, group, language, regex_dfa
from eigentrack.automata.dfa import read_dfa_values
from eigentrack.tasks.automaton_walk import AutomatonWalk
from eigentrack.tasks.counter_random import random_integers
from eigentrack.tasks.task import Batch, DeviceTables, Task, check_lengths


@dataclass(frozen=True)
class TrackingTask(Task):
    """The task to name, after every letter, the output of an automaton's state.

    With `escape` below 1, only this share of the letters is drawn from the whole alphabet. The others are drawn among the
    letters that lead to a state in `live`, so that long words can still be in the language.
    """

    description: ClassVar[str] = "name the state of an automaton after every letter"

    transitions: tuple[tuple[int, ...], ...]  # transitions[state][letter] is the next state
    outputs: tuple[int, ...]  # the answer in every state
    start: int = 0  # the state before the first letter
    shares: tuple[float, ...] | None = None  # how often each letter is drawn, relative to the others; None: equally often
    live: frozenset[int] | None = None  # None: all states
    escape: float = 1.0
    last_weight: float = 0.0  # the share of the loss on the last token; the rest is spread evenly over all tokens
    tokens_per_letter: int = 1
    begin_token: bool = False  # whether every sequence starts with a begin token
    # the multiplication table of a group whose elements are the states, with the identity as state 0, if letters act on the
    # states by multiplication; None for other automata
    products: tuple[tuple[int, ...], ...] | None = None
    # how letters move the points of a smaller automaton whose maps multiply as those of the states do, [point][letter]; None:
    # there is none, as for most automata, and letters move states
    points: tuple[tuple[int, ...], ...] | None = None
    stages: tuple[tuple[int, ...], ...] | None = None  # sets of letters, to one of which `sample` may be restricted

    def __post_init__(self) -> None:
        if len(self.outputs) != len(self.transitions):
            raise ValueError(f"{len(self.outputs)} outputs for {len(self.transitions)} states")
        for name in ("last_weight", "escape"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie between 0 and 1")
        if self.tokens_per_letter < 1:
            raise ValueError(f"tokens_per_letter={self.tokens_per_letter} must be at least 1")
        if self.products is not None and self.escape < 1:
            raise ValueError(f"escape={self.escape} must be 1 in a group: every state is alive")
        if self.shares is not None and (len(self.shares) != self.letters or min(self.shares) < 0 or sum(self.shares) <= 0):
            raise ValueError(f"shares={self.shares} must be {self.letters} numbers of at least 0, not all 0")

    @property
    def letters(self) -> int:
        return len(self.transitions[0])

    @property
    def filler(self) -> int:
        return self.letters

    @property
    def begin(self) -> int:
        return self.letters + (self.tokens_per_letter > 1)

    @property
    def padding(self) -> int:
        return self.begin + self.begin_token

    @property
    def vocab_size(self) -> int:
        return self.padding + 1

    @property
    def classes(self) -> int:
        return max(self.outputs) + 1

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        *,
        seed: int,
        step: int | Tensor,
        device: torch.device | str = "cpu",
        stage: Int[Tensor, "1"] | None = None,
    ) -> Batch:
        """Return sequences whose lengths, between the two `lengths`, do not count the begin token.

        Args:
            batch: the number of sequences.
            lengths: the shortest and the longest possible length.
            seed: the seed of all draws.
            step: the number of the training step, or a vector of n steps, as for any task.
            device: the device of the batch.
            stage: the number of the set in `stages` whose letters alone are drawn; None: all letters are.
        """
        check_lengths(lengths)
        shortest, longest = lengths
        length = shortest + random_integers(longest - shortest + 1, (batch, 1), seed=seed, step=step, device=device)
        start = torch.full((batch,), self.start, device=device)
        tokens, states, _ = self._draw(start, longest, seed, step, stage)
        if self.begin_token:
            tokens = torch.cat([torch.full_like(tokens[:, :1], self.begin), tokens], 1)
            states = torch.cat([start[:, None], states], 1)
            length = length + 1
        position = torch.arange(tokens.shape[1], device=device)
        is_token, is_last = position < length, position == length - 1
        weight = (1 - self.last_weight) * is_token / length + self.last_weight * is_last
        return Batch(torch.where(is_token, tokens, self.padding), self._answers(states), weight)

    def stream(
        self, batch: int, longest: int, *, piece: int, seed: int, device: torch.device | str = "cpu"
    ) -> Iterator[tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]]:
        """Yield the tokens and answers of long sequences piece by piece; a begin token is a piece of its own.

        Args:
            batch: the number of sequences.
            longest: the length of the sequences, without the begin token.
            piece: the length of a piece, rounded up to a multiple of `tokens_per_letter`.
            seed: the seed of all draws.
            device: the device of the pieces.
        """
        state = torch.full((batch,), self.start, device=device)
        if self.begin_token:
            yield torch.full((batch, 1), self.begin, device=device), self._answers(state[:, None])
        piece += -piece % self.tokens_per_letter  # a piece ends where the answer to its last letter is due
        for step, first in enumerate(range(0, longest, piece)):
            tokens, states, state = self._draw(state, min(piece, longest - first), seed, step)
            yield tokens, self._answers(states)

    def _answers(self, states: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        (outputs,) = self._outputs.on(states.device)
        return outputs[states]

    def _draw(
        self, state: Int[Tensor, " B"], time: int, seed: int, step: int | Tensor, stage: Tensor | None = None
    ) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"], Int[Tensor, " B"]]:
        """Return the tokens, the state that the target at each token refers to, and the state after the last letter."""
        k = self.tokens_per_letter
        letters, states = self._walk(state, -(-time // k), seed, step, stage)
        counted = (
            torch.arange(time, device=state.device) + 1
        ) // k  # the number of letters that the answer at each token takes into account
        tokens = F.pad(letters[..., None], (0, k - 1), value=self.filler)
        return tokens.flatten(1)[:, :time], states[:, counted], states[:, -1]

    @cached_property
    def _walk(self) -> AutomatonWalk:
        return AutomatonWalk(self.transitions, self.shares, self.live, self.escape, self.products, self.stages)

    @cached_property
    def _outputs(self) -> DeviceTables:
        return DeviceTables(torch.tensor(self.outputs))


def parity(last_weight: float = 0.5) -> TrackingTask:
    """Ask whether the number of ones so far is odd."""
    return TrackingTask(((0, 1), (1, 0)), (0, 1), last_weight=last_weight)


def cycle_navigation(places: int = 5, last_weight: float = 0.0) -> TrackingTask:
    """Ask for the place on a cycle after steps on, back or none."""
    if places < 2:
        raise ValueError(f"places={places} must be at least 2")
    rows = tuple((p, (p + 1) % places, (p - 1) % places) for p in range(places))
    return TrackingTask(rows, tuple(range(places)), last_weight=last_weight)


def word_problem(name: str = "S5", inputs: str = "all", tokens_per_letter: int = 1, begin_token: bool = True) -> TrackingTask:
    """Ask for the product of the group elements so far.

    Letter i is the i-th of the inputs; answers are elements, and 0 is the identity.
    """
    chosen = group(name)
    subset = chosen.subset(inputs)
    rows = tuple(tuple(row[g] for g in subset) for row in chosen.table)
    outputs = tuple(range(chosen.order))
    points = tuple(zip(*(chosen.permutations[g] for g in subset), strict=True))
    return TrackingTask(
        rows, outputs, tokens_per_letter=tokens_per_letter, begin_token=begin_token, products=chosen.table, points=points
    )


def recognition(
    name: str | None = None,
    regex: str | None = None,
    alphabet: str = "",
    dfa: dict | str | None = None,
    escape: float = 0.1,
    last_weight: float = 0.0,
) -> TrackingTask:
    """Ask after every letter whether the word so far is in the language.

    The language is a named one, a regex, or an automaton in a JSON file.
    """
    return dfa_recognition(chosen_automaton(name, regex, alphabet, dfa), escape, last_weight)


def dfa_recognition(dfa: DFA, escape: float = 0.1, last_weight: float = 0.0) -> TrackingTask:
    """Return the task to tell, after every letter, whether the automaton accepts the word so far."""
    outputs = tuple(int(state in dfa.accepting) for state in range(dfa.states))
    return TrackingTask(dfa.transitions, outputs, dfa.start, live=dfa.live_states(), escape=escape, last_weight=last_weight)


def chosen_automaton(name: str | None, regex: str | None, alphabet: str, dfa: dict | str | None) -> DFA:
    """Return the automaton of the one option that is given; `dfa` is the path of a JSON file, or the contents of one."""
    given = {option: value for option, value in (("name", name), ("regex", regex), ("dfa", dfa)) if value is not None}
    if len(given) != 1:
        raise ValueError(f"a language is given by one of name, regex and dfa, not by {' and '.join(given) or 'none of them'}")
    if alphabet and regex is None:
        raise ValueError(f"alphabet={alphabet!r} adds letters to a regex: a {next(iter(given))} has its own")
    if name is not None:
        return language(name)
    if regex is not None:
        return regex_dfa(regex, alphabet)
    return DFA.from_json(read_dfa_values(Path(dfa)) if isinstance(dfa, str) else dfa)


def state_prediction(
    name: str | None = None,
    regex: str | None = None,
    alphabet: str = "",
    dfa: dict | str | None = None,
    escape: float = 0.1,
    last_weight: float = 0.0,
) -> TrackingTask:
    """Ask after every letter for the state of the language's automaton.

    The automata of named languages and of regexes are minimal.
    """
    chosen = chosen_automaton(name, regex, alphabet, dfa)
    outputs, live = tuple(range(chosen.states)), chosen.live_states()
    return TrackingTask(chosen.transitions, outputs, chosen.start, live=live, escape=escape, last_weight=last_weight)


def flip_flop(ignore: float = 0.8) -> TrackingTask:
    """Ask for the last bit written, with a share of `ignore` letters in between.

    A share of 0.98 makes the sparse test set of the literature, 0.1 the dense one.
    """
    if not 0 <= ignore < 1:
        raise ValueError(f"ignore={ignore} must be at least 0 and below 1")
    dfa = language("flip-flop")
    write = (1 - ignore) / 2
    return TrackingTask(dfa.transitions, (0, 1), dfa.start, shares=(write, write, ignore))
