"""MooreMachine: an automaton that answers after every letter: q ← δ(q, a), answer λ(q). A DFA has the answers 0 and 1.

The answer before the first letter counts only where a network is asked for it, that is where it reads an opening token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from eigentrack.automata import DFA
from eigentrack.automata.dfa import merged_states


@dataclass(frozen=True)
class MooreMachine:
    """`transitions[state][letter]` and the answer `outputs[state]`; letters are named."""

    letters: tuple[str, ...]
    transitions: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    start: int = 0

    def __post_init__(self) -> None:
        DFA(self.letters, self.transitions, frozenset(), self.start)  # names what is wrong with letters, transitions or start
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
        """The letters that leave every state as it is."""
        columns = zip(*self.transitions, strict=True)
        return tuple(letter for letter, images in enumerate(columns) if images == tuple(range(self.states)))

    def recogniser(self, answer: int = 1) -> DFA:
        """The words after which the machine gives this answer."""
        accepting = frozenset(state for state, output in enumerate(self.outputs) if output == answer)
        return DFA(self.letters, self.transitions, accepting, self.start)


def minimal_machine(machine: MooreMachine) -> MooreMachine:
    """Unreachable states dropped, equivalent ones merged; numbered in the order of a search from the start."""
    kept, rows = merged_states(machine.transitions, machine.outputs, machine.start)
    return MooreMachine(machine.letters, rows, tuple(machine.outputs[state] for state in kept))


def first_difference(x: MooreMachine, y: MooreMachine, *, with_empty_word: bool) -> tuple[str, ...] | None:
    """A shortest word after which the machines answer differently; None if there is none."""
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
