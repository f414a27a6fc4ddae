"""One layer as independent heads: each head follows a quotient of the automaton, and together the heads determine the state.

A quotient is the action of the letters on the blocks of a congruence. A head can follow these (docs/theory.md, section 5):

channel    one dimension: two blocks, coded -1 and 1, which a letter keeps, sets or swaps; or a quotient whose block depends on
           the last few letters only
matrix     one coordinate per block; one block may be the origin instead. Letters are permutations, partial injections or resets
factors    generalized Householder factors per token that the costliest letter of a head takes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from eigentrack.automata.congruences import Partition, congruences, is_trivial_meet, quotient
from eigentrack.automata.dfa import DFA
from eigentrack.automata.letter_maps import (
    Map,
    changed_rank,
    cycle_lengths,
    is_constant,
    is_partial_injection,
    is_permutation,
)

MOST_STATES = 130  # for more states, neither congruences nor pairs of states are searched, and one head follows the automaton


@dataclass(frozen=True)
class Head:
    """The abilities of a layer's head."""

    flips: bool  # whether eigenvalues reach -1
    gated: bool = False  # whether a gate can clear the whole state
    forgets: bool = True  # whether a factor can clear what lies along its key


@lru_cache(maxsize=32)
def one_layer_of_channels(dfa: DFA, flips: bool) -> bool:
    """Return whether the channels of a diagonal layer can follow the automaton.

    False means only that this construction does not apply.
    """
    return is_trivial_meet(
        [partition for partition, maps in _quotients(dfa) if _is_channel(maps, flips)] or [(0,) * dfa.states]
    )


@lru_cache(maxsize=32)
def one_layer_factors(dfa: DFA, head: Head) -> int | None:
    """Return the fewest factors per token with which the heads of one layer follow the automaton.

    None means that this construction does not apply with any number of factors.
    """
    costs = {partition: _factors(maps, head) for partition, maps in _quotients(dfa)}
    for factors in sorted({cost for cost in costs.values() if cost is not None}):
        if is_trivial_meet([partition for partition, cost in costs.items() if cost is not None and cost <= factors]):
            return max(factors, 1)
    return None


@lru_cache(maxsize=32)
def _quotients(dfa: DFA) -> tuple[tuple[Partition, tuple[Map, ...]], ...]:
    trivial = tuple(range(dfa.states))
    partitions = congruences(dfa.transitions) if dfa.states <= MOST_STATES else (trivial,)
    return tuple((partition, tuple(set(zip(*quotient(dfa.transitions, partition), strict=True)))) for partition in partitions)


def _factors(maps: Sequence[Map], head: Head) -> int | None:
    clears = head.forgets or head.gated
    if _is_channel(maps, head.flips) and (clears or len(maps[0]) > 2 or all(map(is_permutation, maps))):
        return 1
    if not clears and _last_letters_decide(maps):
        return 1
    moving = [images for images in maps if not is_constant(images)]
    fixed = [block for block in range(len(maps[0])) if all(images[block] == block for images in moving)]
    costs = [_matrix_factors(maps, origin, head) for origin in (None, *fixed)]
    return min((cost for cost in costs if cost is not None), default=None)


def _is_channel(maps: Sequence[Map], flips: bool) -> bool:
    if len(maps[0]) <= 2:
        return flips or not any(images == (1, 0) for images in maps)
    return _last_letters_decide(maps)


def _matrix_factors(maps: Sequence[Map], origin: int | None, head: Head) -> int | None:
    dimensions = len(maps[0]) - (origin is not None)
    factors = 0
    for images in maps:
        if is_constant(images):
            if not head.gated and not head.forgets:
                return None
            factors = max(factors, 1 if head.gated else dimensions)
        elif not (is_permutation(images) if origin is None else is_partial_injection(images, origin)):
            return None
        elif not head.flips and any(image not in (block, origin) for block, image in enumerate(images)):
            return None  # moving a vector without shrinking it takes a reflection
        elif not head.forgets and not is_permutation(images):
            return None  # clearing one coordinate takes a projection
        else:
            factors = max(factors, changed_rank(images))
    return factors


def _last_letters_decide(maps: Sequence[Map]) -> bool:
    """Return whether all long words are constant maps, so that every pair of blocks is merged at last."""
    blocks = len(maps[0])
    if blocks > MOST_STATES or any(cycle_lengths(images) != (1,) for images in maps):
        return False
    following = {
        (p, q): {(min(pair), max(pair)) for pair in ((images[p], images[q]) for images in maps) if pair[0] != pair[1]}
        for q in range(blocks)
        for p in range(q)
    }
    while ended := [pair for pair, after in following.items() if not after & following.keys()]:
        for pair in ended:
            del following[pair]
    return not following
