"""Image sets: all sets Q·w = {qw : q in Q} that words w make of the state set Q, as bitmasks.

They are found without listing the transition monoid.
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
    """The image sets of an automaton, the letters' action on them, and their classes of equivalent sets."""

    sets: tuple[int, ...]  # bitmasks; the first is Q
    images: tuple[tuple[int, ...], ...]  # [set][letter] → the number of the image
    component: tuple[int, ...]  # the class of each set; letters lead to equal or smaller numbers


def members(mask: int) -> tuple[int, ...]:
    """Return the states in a bitmask, in ascending order."""
    return tuple(state for state in range(mask.bit_length()) if mask >> state & 1)


def mask_of(states: Iterable[int]) -> int:
    return sum(1 << state for state in set(states))


def image_sets(transitions: Transitions, limit: int = DEFAULT_LIMIT) -> ImageSets:
    """Return the image sets of an automaton; raise ValueError if there are more than `limit`."""
    letters = [_image_function(images) for images in zip(*transitions, strict=True)]
    everything = (1 << len(transitions)) - 1
    number, found, rows = {everything: 0}, [everything], []
    for mask in found:  # the loop appends to the list
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
    """Return the tiles of each parent, larger ones first; `sets` are the image sets, and all sets are bitmasks."""
    pool = sorted({*sets, *(1 << state for state in range(states))}, key=lambda mask: (-mask.bit_count(), mask))
    words = _as_words(pool, states)
    result = []
    for parent in parents:
        inside = np.flatnonzero(_subsets(words, parent, states))
        inside = inside[1:] if pool[inside[0]] == parent else inside
        maximal = []
        while inside.size:  # the remaining sets lie in no tile found so far, so the largest of them is a tile
            maximal.append(pool[inside[0]])
            inside = inside[~_subsets(words[inside], maximal[-1], states)]
        result.append(tuple(maximal))
    return result


def _image_function(images: Sequence[int]) -> Callable[[int], int]:
    """Return the function from a bitmask to its image under one letter, which looks up eight states at a time."""
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
    """Return the bitmasks as an array of 64-bit words: [masks, words]."""
    size = 8 * -(-states // 64)
    return np.frombuffer(b"".join(mask.to_bytes(size, "little") for mask in masks), dtype="<u8").reshape(len(masks), size // 8)


def _subsets(words: NDArray[np.uint64], parent: int, states: int) -> NDArray[np.bool_]:
    """Return for each row whether it is a subset of the parent."""
    return np.all(words & ~_as_words([parent], states) == 0, axis=1)
