"""Stages of letters: growing sets of an automaton's letters, those that change little first, for training to begin with few.

    rank     how many points a letter moves
    words    the length of the shortest word of generators that acts as the letter

The first stage holds generators, of which all letters are products, and the letters that act like one of them or move nothing.
Every later stage adds the letters of the next rank or of the next length of words; the last one holds all letters.
"""

from __future__ import annotations

from collections.abc import Sequence

from eigentrack.automata.dfa import DFA
from eigentrack.automata.letter_maps import Map, is_identity
from eigentrack.automata.transition_monoid import MonoidTooLarge, transition_monoid

ORDERS = ("rank", "words")
MOST_MAPS = 20_000  # the most maps that the letters may generate: their products are listed some hundred times


def letter_stages(
    transitions: Sequence[Sequence[int]], order: str, letters: Sequence[int] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return the stages, each a sorted tuple of letters.

    Args:
        transitions: the point to which each letter leads from each point, [point][letter].
        order: "rank" or "words".
        letters: the letters to order; None: all.
    """
    if order not in ORDERS:
        raise ValueError(f"order {order!r} of the letters is not known; there are {', '.join(ORDERS)}")
    maps: list[Map] = list(zip(*transitions, strict=True))
    chosen = range(len(maps)) if letters is None else letters
    rank = {letter: moved_points(maps[letter]) for letter in chosen}
    try:
        generators = generating_letters(maps, rank)
        level = rank if order == "rank" else _word_lengths(maps, generators, chosen)
    except MonoidTooLarge:
        raise ValueError(
            f"the {len(chosen)} letters generate more than {MOST_MAPS:,} maps, too many to order them by: use no curriculum"
        ) from None
    alike = {maps[letter] for letter in generators}
    first = {letter for letter in chosen if rank[letter] == 0 or maps[letter] in alike}
    stages = [first, *(first | {letter for letter in chosen if level[letter] <= last} for last in sorted({*level.values()}))]
    return tuple(dict.fromkeys(tuple(sorted(stage)) for stage in stages))


def moved_points(images: Map) -> int:
    """Count the points that a map moves."""
    return sum(image != point for point, image in enumerate(images))


def generating_letters(maps: Sequence[Map], rank: dict[int, int]) -> tuple[int, ...]:
    """Return letters of which all letters are products, and none of which is a product of the others.

    Letters of low rank are taken first and, among those of one rank, the one that generates the most with those before it.

    Args:
        maps: the images of the points, for every letter.
        rank: the rank of every letter to generate.
    """
    chosen: list[int] = []
    for level in sorted(set(rank.values())):
        of_level = [letter for letter, value in rank.items() if value == level and not is_identity(maps[letter])]
        while missing := _not_generated(maps, chosen, of_level):
            chosen.append(max(missing, key=lambda letter: len(_products(maps, [*chosen, letter]))))
    for letter in tuple(chosen):  # what a letter of low rank gives, later ones may give, too
        others = [other for other in chosen if other != letter]
        if others and not _not_generated(maps, others, [letter]):
            chosen = others
    return tuple(chosen)


def _not_generated(maps: Sequence[Map], generators: Sequence[int], letters: Sequence[int]) -> list[int]:
    generated = _products(maps, generators) if generators else {}
    return [letter for letter in letters if maps[letter] not in generated]


def _word_lengths(maps: Sequence[Map], generators: Sequence[int], letters: Sequence[int]) -> dict[int, int]:
    """Return, for every letter, the length of the shortest word of generators that acts as it."""
    lengths = _products(maps, generators) if generators else {}
    return {letter: lengths.get(maps[letter], 0) for letter in letters}  # without generators, no letter moves anything


def _products(maps: Sequence[Map], generators: Sequence[int]) -> dict[Map, int]:
    """Return every product of the generators, the empty one among them, with the length of its shortest word."""
    rows = tuple(zip(*(maps[letter] for letter in generators), strict=True))
    monoid = transition_monoid(DFA(tuple(map(str, generators)), rows, frozenset()), MOST_MAPS)
    return {tuple(row): len(monoid.word(m)) for m, row in enumerate(monoid.elements.tolist())}
