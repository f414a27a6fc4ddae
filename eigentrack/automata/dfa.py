"""DFA: a complete deterministic automaton, frozen and checked. States are 0..n-1, letters are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DFA:
    """`transitions[state][letter]` is the next state, letters in the order of `letters`."""

    letters: tuple[str, ...]
    transitions: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]
    start: int = 0

    def __post_init__(self) -> None:
        states = len(self.transitions)
        if not self.letters or len(set(self.letters)) != len(self.letters):
            raise ValueError(f"letters={self.letters} must be distinct, and at least one")
        if not 0 <= self.start < states:
            raise ValueError(f"start={self.start} is not one of the {states} states")
        for state, row in enumerate(self.transitions):
            if len(row) != len(self.letters):
                raise ValueError(f"state {state} has {len(row)} transitions for {len(self.letters)} letters")
            if bad := [target for target in row if not 0 <= target < states]:
                raise ValueError(f"state {state} leads to {bad[0]}, but there are only {states} states")
        if bad := sorted(state for state in self.accepting if not 0 <= state < states):
            raise ValueError(f"accepting state {bad[0]} is not one of the {states} states")

    @property
    def states(self) -> int:
        return len(self.transitions)

    def run(self, word: Iterable[str]) -> int:
        """The state after the word."""
        state = self.start
        for letter in word:
            if letter not in self.letters:
                raise ValueError(f"letter {letter!r} is not in the alphabet {', '.join(self.letters)}")
            state = self.transitions[state][self.letters.index(letter)]
        return state

    def accepts(self, word: Iterable[str]) -> bool:
        return self.run(word) in self.accepting

    def live_states(self) -> frozenset[int]:
        """The states from which some word is accepted."""
        live = set(self.accepting)
        while grown := {s for s, row in enumerate(self.transitions) if s not in live and live.intersection(row)}:
            live |= grown
        return frozenset(live)

    @classmethod
    def from_function(
        cls,
        letters: Iterable[str],
        start: Any,
        step: Callable[[Any, str], Any],
        accepts: Callable[[Any], bool],
    ) -> DFA:
        """Explores what `step` reaches from `start`; any hashable values serve as states."""
        alphabet = tuple(letters)
        number, found, rows = {start: 0}, [start], []
        for state in found:  # grows while it is read
            row = []
            for letter in alphabet:
                target = step(state, letter)
                if target not in number:
                    number[target] = len(found)
                    found.append(target)
                row.append(number[target])
            rows.append(tuple(row))
        return cls(alphabet, tuple(rows), frozenset(number[state] for state in found if accepts(state)))


def minimal(dfa: DFA) -> DFA:
    """The smallest DFA of the same language: unreachable states dropped, equivalent ones merged (Moore)."""
    reachable = DFA.from_function(
        dfa.letters,
        dfa.start,
        lambda state, letter: dfa.transitions[state][dfa.letters.index(letter)],
        lambda state: state in dfa.accepting,
    )
    block = [int(state in reachable.accepting) for state in range(reachable.states)]
    while True:
        signatures = [(block[s], *(block[t] for t in reachable.transitions[s])) for s in range(reachable.states)]
        names: dict[tuple[int, ...], int] = {}
        refined = [names.setdefault(signature, len(names)) for signature in signatures]
        if len(names) == len(set(block)):
            break
        block = refined
    # numbered in the order of a search from the start, so that equal languages give equal objects
    member = {b: block.index(b) for b in set(block)}
    return DFA.from_function(
        reachable.letters,
        block[reachable.start],
        lambda b, letter: block[reachable.transitions[member[b]][reachable.letters.index(letter)]],
        lambda b: member[b] in reachable.accepting,
    )
