"""The classes of regular languages, in the words that a reader sees."""

from __future__ import annotations

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
    "r_omega": "in R^ω",
}
