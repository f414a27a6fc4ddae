"""MooreMachine: an automaton that answers after every letter: q ← δ(q, a), answer λ(q). A DFA has the answers 0 and 1.

The answer before the first letter counts only where a network is asked for it, that is where it reads an opening token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from eigentrack.automata import DFA


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
    """Unreachable states dropped, equivalent ones merged (Moore); numbered in the order of a search from the start."""
    block = list(machine.outputs)
    while True:
        signatures = [(block[q], *(block[target] for target in row)) for q, row in enumerate(machine.transitions)]
        number = {signature: place for place, signature in enumerate(dict.fromkeys(signatures))}
        finer = [number[signature] for signature in signatures]
        if len(number) == len(set(block)):
            break
        block = finer
    member = {part: state for state, part in enumerate(block)}
    found = {block[machine.start]: 0}
    waiting = deque(found)
    rows = []
    while waiting:
        row = []
        for target in machine.transitions[member[waiting.popleft()]]:
            if block[target] not in found:
                found[block[target]] = len(found)
                waiting.append(block[target])
            row.append(found[block[target]])
        rows.append(tuple(row))
    return MooreMachine(machine.letters, tuple(rows), tuple(machine.outputs[member[part]] for part in found))


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
