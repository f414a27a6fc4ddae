"""The classes of a regular language, decided on the transition monoid of its minimal DFA.

The classes and their criteria are listed in `class_evidence`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eigentrack.automata.class_evidence import AGAINST, monoid_structure
from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.transition_monoid import DEFAULT_LIMIT

# each class as it is described to the user
CLASS_IN_WORDS = {
    "star_free": "star-free (no counting)",
    "group": "a group: every letter permutes the states",
    "solvable": "solvable: all its groups are",
    "two_groups_only": "2-groups only",
    "commutative": "commutative: the order of letters does not matter",
    "r_trivial": "R-trivial",
    "l_trivial": "L-trivial",
    "j_trivial": "J-trivial: piecewise testable",
    "definite": "definite: the last few letters decide",
    "reverse_definite": "reverse definite: the first few letters decide",
    "ac0": "in AC⁰",
    "r_omega": "in R^ω: star-free, and without a flip-flop",
}
# the summary names the first of these that holds, so that finer classes come first
_STAR_FREE_KINDS = {
    "definite": "definite: the last few letters decide",
    "reverse_definite": "reverse definite: the first few letters decide",
    "j_trivial": "piecewise testable (J-trivial)",
    "r_trivial": "R-trivial",
    "l_trivial": "L-trivial",
    "r_omega": "in R^ω, not R-trivial",
}


@dataclass(frozen=True, order=True)
class ContainedGroup:
    """A nontrivial group inside a transition monoid."""

    order: int
    name: str
    abelian: bool
    solvable: bool

    @property
    def least_two_length(self) -> int:
        """A lower bound on the `two_length` of a 2-group, read from its name: a cyclic factor of 2^p elements takes p steps."""
        if not self.abelian:
            return 2
        return max(int(order).bit_length() - 1 for order in re.findall(r"Z(\d+)", self.name))


@dataclass(frozen=True)
class LanguageClass:
    """The classes that a regular language belongs to, with the evidence; the criteria are listed in `class_evidence`."""

    states: int  # the number of states of the minimal DFA
    monoid_size: int  # elements of its transition monoid
    star_free: bool
    group: bool
    solvable: bool
    two_groups_only: bool
    commutative: bool
    r_trivial: bool
    l_trivial: bool
    j_trivial: bool
    definite: bool
    reverse_definite: bool
    ac0: bool
    r_omega: bool
    subgroups: tuple[ContainedGroup, ...]  # the distinct nontrivial groups in the monoid, largest first
    letter_orders: dict[str, int]  # letter → the period of its powers
    witnesses: dict[str, str]  # class that does not hold → the reason, in words

    def __post_init__(self) -> None:
        if odd := [name for name, holds in self.classes.items() if holds == (name in self.witnesses)]:
            raise ValueError(f"class {odd[0]}: a witness belongs to every class that does not hold, and to no other")

    @property
    def classes(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in AGAINST}

    @property
    def summary(self) -> str:
        if self.states == 1:
            return "accepts every word or none"
        if self.star_free:
            return f"star-free; {next((said for name, said in _STAR_FREE_KINDS.items() if getattr(self, name)), 'not in R^ω')}"
        names = [group.name.removeprefix("group ") for group in self.subgroups]
        if self.group:
            largest = self.subgroups[0]
            kind = "abelian" if largest.abelian else "solvable" if largest.solvable else "not solvable"
            return f"a group language; the letters generate the group {names[0]}, {kind}"
        if len(names) == 1:
            said = f"contains the group {names[0]}"
        else:
            said = f"contains the groups {', '.join(names[:-1])} and {names[-1]}"
        if all(order == 1 for order in self.letter_orders.values()):
            said += " though every letter is aperiodic"
        return said if self.solvable else f"{said}; not solvable"


def classify(dfa: DFA, limit: int = DEFAULT_LIMIT) -> LanguageClass:
    """Return the classes of the language of `dfa`.

    Raise `MonoidTooLarge` if the transition monoid of its minimal DFA has more elements than `limit`.
    """
    smallest = minimal(dfa)
    structure = monoid_structure(smallest, limit)
    witnesses = {name: witness for name, against in AGAINST.items() if (witness := against(structure)) is not None}
    monoid, groups = structure.monoid, [subgroup.group for subgroup in structure.subgroups]
    return LanguageClass(
        states=smallest.states,
        monoid_size=monoid.size,
        subgroups=tuple(sorted({ContainedGroup(g.order, g.name, g.abelian, g.solvable) for g in groups}, reverse=True)),
        letter_orders={letter: monoid.power_cycle(monoid.element([letter]))[1] for letter in monoid.letters},
        witnesses=witnesses,
        **{name: name not in witnesses for name in AGAINST},
    )
