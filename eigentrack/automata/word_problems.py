"""Word problem of a group: do the letters, which are its elements, multiply to the identity? States are the products so far."""

from __future__ import annotations

from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.groups import group


def word_problem_dfa(name: str, subset: str = "all") -> DFA:
    """For a name such as S5, A5, Z60 or Z2xZ3; the letters are all elements, swaps, upto3 or generators: see `Group.subset`."""
    chosen = group(name)
    letters = chosen.subset(subset)
    rows = tuple(tuple(row[g] for g in letters) for row in chosen.table)
    return minimal(DFA(tuple(chosen.names[g] for g in letters), rows, frozenset({0})))
