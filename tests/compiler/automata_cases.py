"""Random automata and words."""

from __future__ import annotations

import random

from eigentrack.automata import DFA, minimal


def random_dfa(seed: int, states: int, letters: int) -> DFA:
    """Minimal, with at least two states."""
    rng = random.Random(seed)
    while True:
        rows = tuple(tuple(rng.randrange(states) for _ in range(letters)) for _ in range(states))
        accepting = frozenset(state for state in range(states) if rng.random() < 0.5)
        dfa = minimal(DFA(tuple("abcdefgh"[:letters]), rows, accepting))
        if dfa.states > 1:
            return dfa


def random_regex(rng: random.Random, depth: int = 3) -> str:
    kind = rng.randrange(6) if depth else 0
    if kind <= 1:
        return rng.choice("ab")
    inner, other = random_regex(rng, depth - 1), random_regex(rng, depth - 1)
    return {2: f"({inner}|{other})", 3: f"{inner}{other}", 4: f"({inner})*", 5: f"({inner})?{other}"}[kind]


def random_word(rng: random.Random, dfa: DFA, length: int) -> list[str]:
    return [rng.choice(dfa.letters) for _ in range(length)]


def states_after_each_letter(dfa: DFA, word: list[str]) -> list[int]:
    states = [dfa.start]
    for letter in word:
        states.append(dfa.transitions[states[-1]][dfa.letters.index(letter)])
    return states
