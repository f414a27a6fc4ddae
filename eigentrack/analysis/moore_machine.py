"""MooreMachine: an automaton that answers after every letter: q ← δ(q, a), answer λ(q). A DFA has the answers 0 and 1.

The answer before the first letter counts only if the network reads an opening token, with which it gives that answer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from eigentrack.automata import DFA
from eigentrack.automata.dfa import merged_states


@dataclass(frozen=True)
class MooreMachine:
    """An automaton that answers after every letter."""

    letters: tuple[str, ...]  # the names of the letters
    transitions: tuple[tuple[int, ...], ...]  # [state][letter]
    outputs: tuple[int, ...]  # the answer in each state
    start: int = 0

    def __post_init__(self) -> None:
        DFA(self.letters, self.transitions, frozenset(), self.start)  # raises if letters, transitions or start are wrong
        if len(self.outputs) != len(self.transitions):
            raise ValueError(f"{len(self.outputs)} outputs for {len(self.transitions)} states")
        if min(self.outputs) < 0:
            raise ValueError(f"outputs={self.outputs} must be at least 0")

    @property
    def states(self) -> int:
        return len(self.transitions)

    @property
    def classes(self) -> int:
        return max(self.outputs) + 1

    def ignored(self) -> tuple[int, ...]:
        """Return the letters that leave every state as it is."""
        columns = zip(*self.transitions, strict=True)
        return tuple(letter for letter, images in enumerate(columns) if images == tuple(range(self.states)))

    def recogniser(self, answer: int = 1) -> DFA:
        """Return the DFA of the words after which the machine gives this answer."""
        accepting = frozenset(state for state, output in enumerate(self.outputs) if output == answer)
        return DFA(self.letters, self.transitions, accepting, self.start)


def minimal_machine(machine: MooreMachine) -> MooreMachine:
    """Drop unreachable states and merge equivalent ones; states are numbered in the order of a search from the start."""
    kept, rows = merged_states(machine.transitions, machine.outputs, machine.start)
    return MooreMachine(machine.letters, rows, tuple(machine.outputs[state] for state in kept))


def first_difference(x: MooreMachine, y: MooreMachine, *, with_empty_word: bool) -> tuple[str, ...] | None:
    """Return a shortest word after which the machines answer differently; None if there is none."""
    if x.letters != y.letters:
        raise ValueError(f"the alphabets differ: {', '.join(x.letters)} and {', '.join(y.letters)}")
    start = x.start, y.start
    if with_empty_word and x.outputs[x.start] != y.outputs[y.start]:
        return ()
    words: dict[tuple[int, int], tuple[str, ...]] = {start: ()}
    waiting = deque([start])
    while waiting:
        p, q = pair = waiting.popleft()
        for letter, targets in zip(x.letters, zip(x.transitions[p], y.transitions[q], strict=True), strict=True):
            word = (*words[pair], letter)
            if x.outputs[targets[0]] != y.outputs[targets[1]]:
                return word
            if targets not in words:
                words[targets] = word
                waiting.append(targets)
    return None
