"""Counters: automata that add modulo m. State s has the number n(s), letter a the step x(a), and n(s·a) = n(s) + x(a) mod m."""

from __future__ import annotations

from eigentrack.automata.dfa import DFA
from eigentrack.automata.maps import Map, is_permutation, letter_maps


def counter_steps(dfa: DFA) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The number of every state, and the step of every letter, modulo the number of states; None if the DFA is no counter."""
    m, maps = dfa.states, tuple(letter_maps(dfa).values())
    if not all(map(is_permutation, maps)):
        return None
    for generator in _translations(dfa, maps):
        order, state = [dfa.start], generator[dfa.start]
        while state != dfa.start:
            order.append(state)
            state = generator[state]
        if len(order) == m:
            number = {state: n for n, state in enumerate(order)}
            steps = tuple(number[target] for target in dfa.transitions[dfa.start])
            if all(number[row[a]] == (number[s] + x) % m for s, row in enumerate(dfa.transitions) for a, x in enumerate(steps)):
                return tuple(number[state] for state in range(m)), steps
    return None


def _translations(dfa: DFA, maps: tuple[Map, ...]) -> list[Map]:
    """One product of letters for each state that the start goes to by it."""
    found = {dfa.start: tuple(range(dfa.states))}
    queue = [dfa.start]
    for state in queue:  # grows while it is read
        for images in maps:
            if images[state] not in found:
                found[images[state]] = tuple(images[q] for q in found[state])
                queue.append(images[state])
    return list(found.values())
