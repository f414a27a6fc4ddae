"""Image sets: all sets Q·w = {qw : q in Q} that words w make of the state set Q, as bitmasks; the monoid is never listed.

Two image sets are equivalent if words lead from each to the other. A tile of a set P is a maximal proper subset of P among the
image sets and the single states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.components import strongly_connected
from eigentrack.automata.congruences import Transitions

DEFAULT_LIMIT = 2**16


@dataclass(frozen=True)
class ImageSets:
    """`sets[i]` is a bitmask, Q first; `images[i][letter]` is the number of its image; equivalent sets share a `component[i]`.

    Letters lead to equal or smaller component numbers.
    """

    sets: tuple[int, ...]
    images: tuple[tuple[int, ...], ...]
    component: tuple[int, ...]


def members(mask: int) -> tuple[int, ...]:
    """The states of a bitmask, ascending."""
    return tuple(state for state in range(mask.bit_length()) if mask >> state & 1)


def mask_of(states: Iterable[int]) -> int:
    return sum(1 << state for state in set(states))


def image_sets(transitions: Transitions, limit: int = DEFAULT_LIMIT) -> ImageSets:
    """The orbit of the state set under the letters."""
    letters = [_image_function(images) for images in zip(*transitions, strict=True)]
    everything = (1 << len(transitions)) - 1
    number, found, rows = {everything: 0}, [everything], []
    for mask in found:  # grows while it is read
        row = []
        for image in letters:
            target = image(mask)
            if target not in number:
                if len(found) == limit:
                    raise ValueError(
                        f"the automaton has more than {limit} image sets: raise --image-limit, if memory and time allow"
                    )
                number[target] = len(found)
                found.append(target)
            row.append(number[target])
        rows.append(tuple(row))
    return ImageSets(tuple(found), tuple(rows), tuple(strongly_connected(rows)))


def tiles(parents: Sequence[int], sets: Sequence[int], states: int) -> list[tuple[int, ...]]:
    """The tiles of each parent among the image sets and the single states, larger ones first."""
    pool = sorted({*sets, *(1 << state for state in range(states))}, key=lambda mask: (-mask.bit_count(), mask))
    words = _as_words(pool, states)
    result = []
    for parent in parents:
        inside = np.flatnonzero(_subsets(words, parent, states))
        inside = inside[1:] if pool[inside[0]] == parent else inside
        maximal = []
        while inside.size:  # what is left lies in no tile so far, and its largest set is one
            maximal.append(pool[inside[0]])
            inside = inside[~_subsets(words[inside], maximal[-1], states)]
        result.append(tuple(maximal))
    return result


def _image_function(images: Sequence[int]) -> Callable[[int], int]:
    """The image of a bitmask under one letter, eight states at a time."""
    tables = []
    for first in range(0, len(images), 8):
        table = [0]
        for image in images[first : first + 8]:
            table += [mask | 1 << image for mask in table]
        tables.append(table)
    size = len(tables)

    def image_of(mask: int) -> int:
        result = 0
        for table, byte in zip(tables, mask.to_bytes(size, "little"), strict=True):
            result |= table[byte]
        return result

    return image_of


def _as_words(masks: Sequence[int], states: int) -> NDArray[np.uint64]:
    """[masks, words of 64 states]"""
    size = 8 * -(-states // 64)
    return np.frombuffer(b"".join(mask.to_bytes(size, "little") for mask in masks), dtype="<u8").reshape(len(masks), size // 8)


def _subsets(words: NDArray[np.uint64], parent: int, states: int) -> NDArray[np.bool_]:
    """Which rows are subsets of the parent?"""
    return np.all(words & ~_as_words([parent], states) == 0, axis=1)
