"""The transition monoid M of a DFA: all maps q ↦ q·w that words w induce on the states; the empty word induces the identity.

x·y means x first, then y. Elements are numbered by their shortest words: by length, then by letters.
M monoid  S the semigroup of the nonempty words  m, x, y elements  q states
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.dfa import DFA, letter_numbers

Integers = NDArray[np.integer]

DEFAULT_LIMIT = 1_000_000
LIMIT_BYTES = 256  # an element of up to this size counts as one towards the limit; larger ones count in proportion
_BLOCK_BYTES = 2**22


class MonoidTooLarge(ValueError):
    """The error that a transition monoid has more elements than the limit allows."""


@dataclass(frozen=True, eq=False)
class TransitionMonoid:
    """A transition monoid with its right Cayley graph."""

    letters: tuple[str, ...]
    elements: Integers  # [size, states]: [m][q] is the state to which m leads from q; element 0 is the identity
    right: Integers  # [size, letters]: the element m·letter

    def __post_init__(self) -> None:
        size, states = self.elements.shape
        if self.right.shape != (size, len(self.letters)):
            raise ValueError(f"right has shape {self.right.shape} for {size} elements and {len(self.letters)} letters")
        if not np.array_equal(self.elements[0], np.arange(states)):
            raise ValueError(f"element 0 is {self.elements[0].tolist()}, but it must be the identity")
        for table in (self.elements, self.right):
            table.flags.writeable = False

    @property
    def size(self) -> int:
        return len(self.elements)

    @property
    def states(self) -> int:
        return self.elements.shape[1]

    @property
    def identity_in_semigroup(self) -> bool:
        """Whether some nonempty word acts as the identity."""
        return bool((self.right == 0).any())

    @cached_property
    def left(self) -> Integers:
        """The element letter·m, [size, letters]; for m = x·b it is (letter·x)·b, computed in the order of word lengths."""
        table = np.empty_like(self.right)
        table[0] = self.right[0]
        parent, letter = self._last_steps
        for level in word_length_ranges(parent):
            table[level] = self.right[table[parent[level]], letter[level, None]]
        table.flags.writeable = False
        return table

    def word(self, m: int) -> tuple[str, ...]:
        """Return a shortest word that acts as m."""
        parent, letter = self._last_steps
        word = []
        while m:
            word.append(self.letters[letter[m]])
            m = parent[m]
        return tuple(reversed(word))

    def element(self, word: Iterable[str], start: int = 0) -> int:
        """Return the element start·word."""
        for number in letter_numbers(word, self.letters):
            start = self.right[start, number]
        return int(start)

    def product(self, x: int, y: int) -> int:
        return self.element(self.word(y), start=x)

    def power_cycle(self, m: int) -> tuple[int, int]:
        """Return the least index ≥ 1 and period ≥ 1 with m^(index + period) = m^index."""
        image = self.elements[m].tolist()
        index, recurrent = 0, set(range(self.states))
        while (reached := {image[state] for state in recurrent}) != recurrent:
            index, recurrent = index + 1, reached
        period = 1
        while recurrent:
            length, state = 1, image[start := recurrent.pop()]
            while state != start:
                recurrent.remove(state)
                length, state = length + 1, image[state]
            period = math.lcm(period, length)
        return max(index, 1), period

    @cached_property
    def _last_steps(self) -> tuple[Integers, Integers]:
        return last_steps(self.right)


def last_steps(right: Integers) -> tuple[Integers, Integers]:
    """Return, for the shortest word of every element, the element before its last letter, and that letter.

    The entries of the identity are meaningless.
    """
    found, first = np.unique(right, return_index=True)
    steps = np.zeros(len(right), dtype=np.int64)
    steps[found] = first  # elements are numbered as a search finds them, so the first path to each is a shortest one
    return np.divmod(steps, right.shape[1])


def word_length_ranges(parent: Integers) -> Iterator[slice]:
    """Yield the range of the elements of word length 1, 2, …; the parents of each range are in the range before."""
    start, stop = 0, 1
    while stop < len(parent):
        start, stop = stop, 1 + int(np.searchsorted(parent[1:], stop))
        yield slice(start, stop)


def transition_monoid(dfa: DFA, limit: int = DEFAULT_LIMIT) -> TransitionMonoid:
    """Return the transition monoid of `dfa`; raise `MonoidTooLarge` if it has more elements than `limit` (see `LIMIT_BYTES`).

    libsemigroups computes it if it is installed, otherwise a search in numpy; both number the elements alike.
    """
    try:
        import libsemigroups_pybind11  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return search_monoid(dfa, limit)
    return libsemigroups_monoid(dfa, limit)


def search_monoid(dfa: DFA, limit: int = DEFAULT_LIMIT) -> TransitionMonoid:
    """Return the transition monoid, found by a breadth-first search that handles a block of elements at a time."""
    maps = _letter_maps(dfa)
    allowed = _allowed_elements(dfa, limit)
    letters, states = maps.shape
    row_bytes = states * maps.itemsize
    rows_in_block = max(1, _BLOCK_BYTES // (letters * row_bytes))
    identity = np.arange(states, dtype=maps.dtype)[None]
    number = {row_keys(identity)[0]: 0}
    blocks, right = [identity], []
    for block in blocks:  # the loop appends to the list
        reached = maps[:, block].swapaxes(0, 1).reshape(-1, states)  # [block · letters, states]
        known = len(number)
        targets = np.array([number.setdefault(key, len(number)) for key in row_keys(reached)], dtype=np.int32)
        if len(number) > allowed:
            raise _too_large(dfa, limit)
        right.append(targets.reshape(-1, letters))
        found, first = np.unique(targets, return_index=True)
        new = reached[first[found >= known]]
        blocks += [new[i : i + rows_in_block] for i in range(0, len(new), rows_in_block)]
    return TransitionMonoid(dfa.letters, np.concatenate(blocks), np.concatenate(right))


def libsemigroups_monoid(dfa: DFA, limit: int = DEFAULT_LIMIT) -> TransitionMonoid:
    """Return the transition monoid, found by the Froidure-Pin algorithm of libsemigroups.

    The elements are computed from the right Cayley graph, since copying them one by one would take longer.
    """
    from libsemigroups_pybind11 import FroidurePin, ReportGuard, Transf

    silence = ReportGuard(False)  # turns reports off as long as it is referenced
    maps = _letter_maps(dfa)
    letters, states = maps.shape
    allowed = _allowed_elements(dfa, limit)
    semigroup = FroidurePin([Transf(list(range(states))), *(Transf(row) for row in maps.tolist())])
    semigroup.enumerate(allowed + 1)
    if semigroup.current_size() > allowed:
        raise _too_large(dfa, limit)
    size, target = semigroup.size(), semigroup.right_cayley_graph().target
    right = np.fromiter(
        (target(m, letter) for m in range(size) for letter in range(1, letters + 1)), dtype=np.int32, count=size * letters
    ).reshape(size, letters)
    del silence
    elements = np.empty((size, states), dtype=maps.dtype)
    elements[0] = np.arange(states)
    parent, letter = last_steps(right)
    for level in word_length_ranges(parent):
        elements[level] = maps[letter[level, None], elements[parent[level]]]
    return TransitionMonoid(dfa.letters, elements, right)


def _letter_maps(dfa: DFA) -> Integers:
    """Return the next state for every letter and state: [letters, states]."""
    return np.array(dfa.transitions, dtype=np.min_scalar_type(dfa.states - 1)).T.copy()


def row_keys(rows: Integers) -> list[bytes]:
    """Return the bytes of each row as a key; numpy strips trailing zeros, which keeps the keys of different rows different."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1] * rows.itemsize}").ravel().tolist()


def _element_bytes(dfa: DFA) -> int:
    return dfa.states * np.min_scalar_type(dfa.states - 1).itemsize


def _allowed_elements(dfa: DFA, limit: int) -> int:
    return limit * LIMIT_BYTES // max(LIMIT_BYTES, _element_bytes(dfa))


def _too_large(dfa: DFA, limit: int) -> MonoidTooLarge:
    allowed = _allowed_elements(dfa, limit)
    if allowed < limit:
        why = f" of {_element_bytes(dfa)} bytes, as much as the limit of {limit} elements of {LIMIT_BYTES} bytes"
    else:
        why = ", which is the limit"
    return MonoidTooLarge(
        f"the transition monoid of this automaton with {dfa.states} states has more than {allowed} elements{why}: "
        "raise it with --monoid-limit"
    )
