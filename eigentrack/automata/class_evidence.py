"""A check for each class of languages, which returns None if the language is in the class, otherwise the reason in words.

M transition monoid of the minimal DFA  S semigroup of the nonempty words  e idempotent, e·e = e  R, L, H Green's relations on M

    star_free         no nontrivial group in M: every H-class is a single element
    group             every letter permutes the states
    solvable          every group in M is solvable
    two_groups_only   every group in M has 2^k elements
    commutative       any two letters commute
    r_trivial, l_trivial    every R-class, L-class is a single element; j_trivial: both
    definite          s·e = e for all s, e in S: the last few letters decide
    reverse_definite  e·s = e for all s, e in S: the first few letters decide
    ac0               no nontrivial group among words of equal length
    r_omega           star-free, and no R-class has two idempotents
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.dfa import DFA
from eigentrack.automata.green import GreenRelations, green_relations
from eigentrack.automata.monoid_subgroups import MonoidSubgroup, equal_length_subgroup, maximal_subgroups
from eigentrack.automata.transition_monoid import Integers, TransitionMonoid, transition_monoid

_CHUNK_ENTRIES = 2**21
_LONGEST_WORD = 24  # the most letters, or states, that a sentence spells out


@dataclass(frozen=True, eq=False)
class MonoidStructure:
    """The transition monoid of an automaton with Green's relations and its nontrivial maximal subgroups."""

    monoid: TransitionMonoid
    green: GreenRelations
    subgroups: tuple[MonoidSubgroup, ...]  # the nontrivial maximal subgroups, one for each D-class that has one

    def __post_init__(self) -> None:
        if any(subgroup.group.order == 1 for subgroup in self.subgroups):
            raise ValueError("the subgroups must be nontrivial")


def monoid_structure(dfa: DFA, limit: int) -> MonoidStructure:
    monoid = transition_monoid(dfa, limit)
    green = green_relations(monoid)
    nontrivial = tuple(subgroup for subgroup in maximal_subgroups(monoid, green) if subgroup.group.order > 1)
    return MonoidStructure(monoid, green, nontrivial)


def _star_free(structure: MonoidStructure) -> str | None:
    if not structure.subgroups:
        return None
    return _turning(structure.monoid, lambda maps, high: _product(high, maps) != high)


def _group(structure: MonoidStructure) -> str | None:
    monoid = structure.monoid
    for letter, m in zip(monoid.letters, monoid.right[0], strict=True):
        image = monoid.elements[m].tolist()
        for q, target in enumerate(image):
            if (p := image.index(target)) < q:
                return f"letter {letter} sends states {p} and {q} both to {target}"
    return None


def _solvable(structure: MonoidStructure) -> str | None:
    return next((_contains(subgroup) for subgroup in structure.subgroups if not subgroup.group.solvable), None)


def _two_groups_only(structure: MonoidStructure) -> str | None:
    odd = next((subgroup for subgroup in structure.subgroups if not subgroup.group.is_two_group), None)
    if odd is None:
        return None
    # for N a large enough power of 2, m^N is idempotent if the period of m is a power of 2, and otherwise not
    return f"{_turning(structure.monoid, lambda maps, high: _product(high, high) != high)}; the monoid {_contains(odd)}"


def _commutative(structure: MonoidStructure) -> str | None:
    monoid = structure.monoid
    products = monoid.right[monoid.right[0]]  # [letters, letters]: x·y
    differ = np.argwhere(products != products.T)
    if not len(differ):
        return None
    x, y = differ[0]
    xy, yx = monoid.elements[products[x, y]], monoid.elements[products[y, x]]
    words = [_joined((monoid.letters[first], monoid.letters[second])) for first, second in ((x, y), (y, x))]
    return f"{words[0]} and {words[1]} lead from state {np.argmax(xy != yx)} to different states"


def _r_trivial(structure: MonoidStructure) -> str | None:
    return _shared_class(structure, structure.green.r, "appending")


def _l_trivial(structure: MonoidStructure) -> str | None:
    return _shared_class(structure, structure.green.l, "prepending")


def _j_trivial(structure: MonoidStructure) -> str | None:
    return _r_trivial(structure) or _l_trivial(structure)


def _definite(structure: MonoidStructure) -> str | None:
    return _moved_idempotent(structure, structure.monoid.left, "before")


def _reverse_definite(structure: MonoidStructure) -> str | None:
    return _moved_idempotent(structure, structure.monoid.right, "after")


def _ac0(structure: MonoidStructure) -> str | None:
    for subgroup in structure.subgroups:
        among = equal_length_subgroup(structure.monoid, structure.green, subgroup)
        if among.group.order > 1:
            return f"words of equal length act as {_named(among)}"
    return None


def _r_omega(structure: MonoidStructure) -> str | None:
    monoid, green = structure.monoid, structure.green
    if (periodic := _star_free(structure)) is not None:
        return periodic
    classes, counts = np.unique(green.r[green.idempotents], return_counts=True)
    if (counts == 1).all():
        return None
    e, f = green.idempotents[green.r[green.idempotents] == classes[counts > 1][0]][:2]
    return f"{_spelled(monoid, e)} and {_spelled(monoid, f)} are idempotent and lead to each other by appending letters"


AGAINST: dict[str, Callable[[MonoidStructure], str | None]] = {
    "star_free": _star_free,
    "group": _group,
    "solvable": _solvable,
    "two_groups_only": _two_groups_only,
    "commutative": _commutative,
    "r_trivial": _r_trivial,
    "l_trivial": _l_trivial,
    "j_trivial": _j_trivial,
    "definite": _definite,
    "reverse_definite": _reverse_definite,
    "ac0": _ac0,
    "r_omega": _r_omega,
}


def _turning(monoid: TransitionMonoid, differs: Callable[[Integers, Integers], NDArray[np.bool_]]) -> str:
    """Return a sentence about the first element m with `differs(m, m^N)`, N = 2^k ≥ states: its word, period and states."""
    m = _first(monoid, differs)
    power, cycle = monoid.elements[m].tolist(), set(range(monoid.states))
    while (reached := {power[state] for state in cycle}) != cycle:
        cycle = reached
    turning = sorted(state for state in cycle if power[state] != state)
    return f"{_spelled(monoid, m)} acts with period {monoid.power_cycle(m)[1]} on states {_listed(turning)}"


def _first(monoid: TransitionMonoid, differs: Callable[[Integers, Integers], NDArray[np.bool_]]) -> int:
    rows = max(1, _CHUNK_ENTRIES // monoid.states)
    for start in range(0, monoid.size, rows):
        maps: Integers = monoid.elements[start : start + rows].astype(np.int64)
        high = maps
        for _ in range(monoid.states.bit_length()):
            high = _product(high, high)
        found = differs(maps, high).any(axis=1)
        if found.any():
            return start + int(np.argmax(found))
    raise ValueError("no element differs")


def _product(first: Integers, second: Integers) -> Integers:
    """Return the products of the rows of `first` with the rows of `second`, where the first map is applied first."""
    return np.take_along_axis(second, first, axis=1)


def _shared_class(structure: MonoidStructure, classes: Integers, by: str) -> str | None:
    labels, first, counts = np.unique(classes, return_index=True, return_counts=True)
    if len(labels) == len(classes):
        return None
    x = int(first[counts > 1].min())
    y = int(np.flatnonzero(classes == classes[x])[1])
    words = [_spelled(structure.monoid, m) for m in (x, y)]
    return f"{words[0]} and {words[1]} act differently, yet lead to each other by {by} letters"


def _moved_idempotent(structure: MonoidStructure, cayley: Integers, place: str) -> str | None:
    """Return a sentence about an idempotent of S that a letter changes, or None; if no letter changes it, no word does."""
    monoid = structure.monoid
    idempotents = structure.green.idempotents
    if not monoid.identity_in_semigroup:
        idempotents = idempotents[idempotents != 0]
    moved, letters = np.nonzero(cayley[idempotents] != idempotents[:, None])
    if not len(moved):
        return None
    word = monoid.word(int(idempotents[moved[0]])) or _identity_word(monoid)
    return f"{_joined(word)} is idempotent, but the letter {monoid.letters[letters[0]]} {place} it still matters"


def _identity_word(monoid: TransitionMonoid) -> tuple[str, ...]:
    """Return a shortest nonempty word that acts as the identity."""
    m, letter = np.argwhere(monoid.right == 0)[0]
    return (*monoid.word(int(m)), monoid.letters[letter])


def _contains(subgroup: MonoidSubgroup) -> str:
    return f"contains {_named(subgroup)}"


def _named(subgroup: MonoidSubgroup) -> str:
    name = subgroup.group.name
    return f"{'a ' if name.startswith('group') else ''}{name} on states {_listed(subgroup.states)}"


def _spelled(monoid: TransitionMonoid, m: int) -> str:
    return _joined(monoid.word(int(m)))


def _joined(word: Iterable[str]) -> str:
    letters = tuple(word)
    if not letters:
        return "the empty word"
    between = "" if all(len(letter) == 1 for letter in letters) else "·"
    if len(letters) <= _LONGEST_WORD:
        return between.join(letters)
    return f"{between.join(letters[: _LONGEST_WORD // 2])}… ({len(letters)} letters)"


def _listed(states: Iterable[int]) -> str:
    known = list(map(str, states))
    shown = known if len(known) <= _LONGEST_WORD else [*known[: _LONGEST_WORD // 2], "…", known[-1]]
    return f"{{{', '.join(shown)}}}"
