"""Round trips: a word u from a representative to an image set and a word v back, with uv = 1 on the representative."""

from __future__ import annotations

from eigentrack.automata.holonomy import Holonomy, HolonomyClass
from eigentrack.automata.image_sets import mask_of, members

Word = tuple[int, ...]  # numbers of letters


def round_trip(holonomy: Holonomy, image: int) -> tuple[Word, Word]:
    """(u, v) for an image set of more than one state."""
    if image not in holonomy.place:
        raise ValueError(f"{set(members(image))} is no image set of more than one state")
    level, number = holonomy.place[image]
    found = holonomy.levels[level][number]
    there = _word_from_representative(found, image)
    back = _shortest_word(holonomy, image, found.representative)
    start = members(found.representative)
    word, places = back, _run(holonomy, there + back, start)
    while places != start:  # v = back (there back)ᵏ, until the round trip closes
        word += there + back
        places = _run(holonomy, there + back, places)
    return there, word


def _word_from_representative(found: HolonomyClass, image: int) -> Word:
    word: list[int] = []
    while image != found.representative:
        image, letter = found.arrivals[image]
        word.append(letter)
    return tuple(reversed(word))


def _shortest_word(holonomy: Holonomy, source: int, target: int) -> Word:
    word_to: dict[int, Word] = {source: ()}
    queue = [source]
    for image in queue:  # grows while it is read
        if image == target:
            break
        for letter in range(len(holonomy.transitions[0])):
            reached = mask_of(holonomy.transitions[state][letter] for state in members(image))
            if reached.bit_count() == target.bit_count() and reached not in word_to:
                word_to[reached] = (*word_to[image], letter)
                queue.append(reached)
    return word_to[target]


def _run(holonomy: Holonomy, word: Word, states: tuple[int, ...]) -> tuple[int, ...]:
    for letter in word:
        states = tuple(holonomy.transitions[state][letter] for state in states)
    return states
