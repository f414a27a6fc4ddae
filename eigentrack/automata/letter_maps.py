"""Letter maps x ↦ images[x], by which a letter moves the states, and the generalized Householder factors that they take.

Let the sink be a state coded as the zero vector. A map that is one-to-one on the states that it does not send to the sink is a
partial permutation matrix A of the other states: a product of rank(A - I) factors with eigenvalues in [-1, 1]. A cycle of c
states takes c - 1 factors, a path x₁ → … → x_m → sink takes m (docs/theory.md, section 5).

A counter is an automaton whose letters add modulo m: state s has the number n(s), letter a the step x(a), and
n(s·a) = n(s) + x(a) mod m.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.automata.dfa import DFA

Map = tuple[int, ...]


def letter_maps(dfa: DFA) -> dict[str, Map]:
    return dict(zip(dfa.letters, zip(*dfa.transitions, strict=True), strict=True))


def is_identity(images: Sequence[int]) -> bool:
    return all(point == image for point, image in enumerate(images))


def is_permutation(images: Sequence[int]) -> bool:
    return len(set(images)) == len(images)


def is_constant(images: Sequence[int]) -> bool:
    return len(set(images)) == 1


def is_permutation_or_constant(images: Sequence[int]) -> bool:
    return is_permutation(images) or is_constant(images)


def is_swap_or_identity(images: Sequence[int]) -> bool:
    """Return whether the map swaps two points and fixes the others, or is the identity."""
    moved = [point for point, image in enumerate(images) if image != point]
    return not moved or (len(moved) == 2 and images[moved[0]] == moved[1] and images[moved[1]] == moved[0])


def is_partial_injection(images: Sequence[int], sink: int) -> bool:
    """Return whether the map fixes the sink and sends no two points to the same point other than the sink."""
    elsewhere = [image for image in images if image != sink]
    return images[sink] == sink and len(set(elsewhere)) == len(elsewhere)


def cycle_lengths(images: Sequence[int]) -> tuple[int, ...]:
    """Return the lengths of the map's cycles, shortest first; fixed points are cycles of length 1."""
    lengths, seen = [], set()
    for start in range(len(images)):
        trail = []
        point = start
        while point not in seen:
            seen.add(point)
            trail.append(point)
            point = images[point]
        if point in trail:
            lengths.append(len(trail) - trail.index(point))
    return tuple(sorted(lengths))


def changed_rank(images: Sequence[int]) -> int:
    """Return rank(A - I) of a permutation, or of a partial injection on the points other than its sink: points minus cycles."""
    return len(images) - len(cycle_lengths(images))


def injective_sink(dfa: DFA) -> int | None:
    """Return a sink for which every letter is a partial injection (see `is_partial_injection`); None if there is none."""
    absorbing = [state for state, row in enumerate(dfa.transitions) if set(row) == {state}]
    maps = letter_maps(dfa).values()
    return next((sink for sink in absorbing if all(is_partial_injection(images, sink) for images in maps)), None)


def counter_steps(dfa: DFA) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the number n(s) of every state and the step x(a) of every letter, or None if the DFA is no counter.

    The modulus m is the number of states.
    """
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
    """Return one product of letters for each state, which takes the start to that state."""
    found = {dfa.start: tuple(range(dfa.states))}
    queue = [dfa.start]
    for state in queue:  # the loop appends to the queue
        for images in maps:
            if images[state] not in found:
                found[images[state]] = tuple(images[q] for q in found[state])
                queue.append(images[state])
    return list(found.values())
