"""What single letters do to the states: the maps q ↦ q·a, and what they cost as products of generalized Householder factors.

A map that is one-to-one where it does not lead to the origin, a state coded as the zero vector, is a partial permutation matrix
A of the other states: a product of rank(A - I) factors with eigenvalues in [-1, 1]. A cycle of c states takes c - 1, a path
x₁ → … → x_m → origin takes m (docs/theory.md, section 5).
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.automata.dfa import DFA

Map = tuple[int, ...]


def letter_maps(dfa: DFA) -> dict[str, Map]:
    return dict(zip(dfa.letters, zip(*dfa.transitions, strict=True), strict=True))


def is_permutation(images: Sequence[int]) -> bool:
    return len(set(images)) == len(images)


def is_constant(images: Sequence[int]) -> bool:
    return len(set(images)) == 1


def is_swap_or_identity(images: Sequence[int]) -> bool:
    """At most two states move, and they trade places."""
    moved = [state for state, image in enumerate(images) if image != state]
    return not moved or (len(moved) == 2 and images[moved[0]] == moved[1] and images[moved[1]] == moved[0])


def cycle_lengths(images: Sequence[int]) -> tuple[int, ...]:
    """Of the states that come back to themselves, shortest first; fixed states are cycles of length 1."""
    lengths, seen = [], set()
    for start in range(len(images)):
        trail = []
        state = start
        while state not in seen:
            seen.add(state)
            trail.append(state)
            state = images[state]
        if state in trail:
            lengths.append(len(trail) - trail.index(state))
    return tuple(sorted(lengths))


def is_partial_injection(images: Sequence[int], origin: int) -> bool:
    """The origin stays, and no two states go to the same state other than the origin."""
    elsewhere = [image for image in images if image != origin]
    return images[origin] == origin and len(set(elsewhere)) == len(elsewhere)


def changed_rank(images: Sequence[int]) -> int:
    """rank(A - I) of a permutation, or of a partial injection on the states other than its origin: states minus cycles."""
    return len(images) - len(cycle_lengths(images))


def origins(dfa: DFA) -> tuple[int, ...]:
    """The states that no letter leaves."""
    return tuple(state for state, row in enumerate(dfa.transitions) if set(row) == {state})


def partial_injection_rank(dfa: DFA) -> int | None:
    """The factors that one layer needs, if every letter is a partial injection off the same absorbing state; None if not."""
    maps = letter_maps(dfa).values()
    ranks = [
        max(changed_rank(images) for images in maps)
        for origin in origins(dfa)
        if all(is_partial_injection(images, origin) for images in maps)
    ]
    return min(ranks, default=None)
