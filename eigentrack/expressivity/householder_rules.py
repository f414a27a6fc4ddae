"""Rules for layers whose gates are products of generalized Householder factors: DeltaNet, DeltaProduct.

A factor with its eigenvalue in [0, 1] shrinks every vector that it moves, so that the state settles on a repeated word; one
with the eigenvalue -1 reflects. A head with one more dimension, along which nothing is kept, can leave its state alone in any
range: the factor acts on that dimension.
"""

from __future__ import annotations

import re

from eigentrack.automata.letter_maps import changed_rank, injective_sink, is_permutation, is_swap_or_identity, letter_maps
from eigentrack.expressivity.one_layer import Head, one_layer_factors
from eigentrack.expressivity.sources import (
    CASTS,
    CASTS_OFF_BOUNDARY,
    DELTAPRODUCT,
    ENOUGH_BITS,
    FINITE_REACH,
    GRAZZI,
    ROUNDED_ANGLES,
    SMALL_INTEGERS,
    derived,
    proved,
    stated,
)
from eigentrack.expressivity.verdict import Question, Rules, Verdict

UNCOVERED = "no theorem covers this number of layers and factors"
_CASCADE = proved(f"{GRAZZI}, Theorem 4") + "; the delay it lacks is in docs/theory.md, section 4"


def never_turns_cannot(question: Question) -> Verdict | None:
    """Return "cannot" for layers without the eigenvalue -1, for which the powers of every product of gates converge."""
    language, householders = question.language, question.architecture.householders
    if question.flips or language.star_free or not question.casts:
        return None
    turning = [letter for letter, order in language.letter_orders.items() if order > 1]
    if turning and question.eigenvalues.low >= 0 and householders is not None and householders <= 2:
        return question.cannot(
            proved(f"{GRAZZI}, Theorem 1 with Proposition 1.3"),
            CASTS,
            "two factors in [0, 1] have real eigenvalues ≥ 0: the state settles on a repeated letter",
            f"letter {turning[0]} acts with period {language.letter_orders[turning[0]]}",
        )
    return settles(question)


def settles(question: Question) -> Verdict:
    """Return the verdict that a layer without the eigenvalue -1 cannot recognise a language that is not star-free."""
    return question.cannot(
        derived("6"),
        CASTS_OFF_BOUNDARY,
        "every eigenvalue of a word's product is 1 or of modulus below 1: the state settles on a repeated word",
        question.why_not("star_free"),
    )


def one_layer_can(question: Question) -> Verdict | None:
    factors = one_layer_factors(question.dfa, Head(question.flips, _gated(question), question.forgets))
    if factors is None or not question.has_factors(factors):
        return None
    maps = tuple(letter_maps(question.dfa).values())
    amount = f"{factors} factor{'s' if factors > 1 else ''} per token, one layer"
    if all(map(is_permutation, maps)):
        theorem = proved(f"{GRAZZI}, Theorem 3") + "; heads and rank in docs/theory.md, section 5"
        do = "swap two states or keep all" if all(map(is_swap_or_identity, maps)) else "permute the states"
        return question.can(theorem, SMALL_INTEGERS, f"letters {do}: {amount}")
    if injective_sink(question.dfa) is not None and max(map(changed_rank, maps)) == factors:
        return question.can(derived("5"), SMALL_INTEGERS, f"letters are one-to-one, up to an absorbing state: {amount}")
    return question.can(
        derived("5"), ENOUGH_BITS, f"splits into heads of permutations, partial injections, resets and delays: {amount}"
    )


def rotations_can(question: Question) -> Verdict | None:
    """Return "can" if the group is abelian or consists of rotations, since the product of two reflections is a rotation."""
    language = question.language
    if not (question.flips and language.group and question.has_factors(2)) or question.rounds:
        return None
    name = language.subgroups[0].name
    if language.commutative:
        return question.can(
            proved(f"{GRAZZI}, Theorem 3"),
            ROUNDED_ANGLES,
            f"{name} is a product of cycles, each a rotation of a plane: two factors, one layer",
        )
    if re.fullmatch(r"D\d+|S3|A4|S4|A5", name):
        return question.can(
            stated(DELTAPRODUCT) + "; docs/theory.md, section 5",
            ROUNDED_ANGLES,
            f"{name} turns a plane or the space: each element is a product of two reflections, one layer",
        )
    return None


def two_layers_can(question: Question) -> Verdict | None:
    language = question.language
    built = question.construction
    exact = built is not None and built.exact
    if not (question.flips and language.group and question.has_layers(2)) or (question.rounds and not exact):
        return None
    name = language.subgroups[0].name
    if language.commutative:
        return question.can(
            proved(f"{GRAZZI}, Theorem 6"),
            SMALL_INTEGERS if exact else ROUNDED_ANGLES,
            f"{name} is a product of cycles: the first layer finds whose turn it is, the second reflects by turns",
        )
    if re.fullmatch(r"D\d+|S3", name):
        return question.can(stated(DELTAPRODUCT), ROUNDED_ANGLES, f"{name} is dihedral: two layers with one factor")
    return None


def blocks_can(question: Question) -> Verdict | None:
    """Return "can" for a group language if there are 3 layers, or 4 with one factor.

    The layers collect the letters in blocks, and apply the permutation of a block as swaps while they read the next block.
    """
    if not (question.flips and question.forgets and question.language.group) or question.rounds:
        return None
    needed = 4 if question.architecture.householders == 1 else 3
    if not question.has_layers(needed):
        return None
    return question.can(
        stated(f"{DELTAPRODUCT}, Theorem 1") + "; docs/theory.md, section 9",
        ROUNDED_ANGLES,
        f"a group language: {needed} layers and a large look-up table",
    )


def any_depth_can(question: Question) -> Verdict | None:
    if not question.any_depth or not (question.forgets or _gated(question)):
        return None
    if question.language.star_free and not question.flips:
        return question.can(derived("4"), ENOUGH_BITS, "star-free: a cascade of flip-flops in heads of one dimension")
    if not question.flips:
        return None
    reason = "every regular language: a cascade of permutations and resets"
    if _gated(question):
        return question.can(stated(f"{DELTAPRODUCT}, Theorem 2"), ENOUGH_BITS, reason)
    if question.architecture.householders is None:
        return question.can(_CASCADE, ENOUGH_BITS, reason)
    return question.can(derived("9", f"{DELTAPRODUCT}, Theorem 1, for groups"), ENOUGH_BITS, reason)


def levels_can(question: Question) -> Verdict | None:
    """Return "can" if the compiler builds a cascade with few enough layers and factors."""
    built = question.construction
    if built is None:
        return None
    return question.can(_CASCADE, ENOUGH_BITS, f"a cascade of permutations and resets: {built.sizes}")


def symmetric_gate_cannot(question: Question) -> Verdict | None:
    """Return "cannot" for one layer with one factor if some letter has a period above 2.

    One factor is a symmetric matrix, and has real eigenvalues also after gates in [0, 1]; so on a repeated letter the state has
    a period of at most 2.
    """
    architecture = question.architecture
    if question.has_layers(2) or question.has_factors(2) or not question.casts:
        return None
    slow = [letter for letter, order in question.language.letter_orders.items() if order > 2]
    if not slow:
        return None
    source = proved(f"{GRAZZI}, Theorem 2, for one layer")
    return question.cannot(
        f"{source}; docs/theory.md, section 5" if architecture.layer == "kda" else source,
        CASTS,
        "a gate with real eigenvalues makes a repeated letter settle, or alternate between two states",
        f"letter {slow[0]} acts with period {question.language.letter_orders[slow[0]]}",
    )


def all_of_s5_cannot(question: Question) -> Verdict | None:
    language = question.language
    if question.has_layers(2) or question.has_factors(4) or not question.casts:
        return None
    maps = letter_maps(question.dfa)
    if not (language.group and language.subgroups[0].name == "S5" and len(set(maps.values())) >= 119):
        return None
    turn = next(letter for letter, order in language.letter_orders.items() if order == 5)
    return question.cannot(
        stated(f"{DELTAPRODUCT}, Theorem 4") + "; not checked here, docs/theory.md, section 11",
        FINITE_REACH,
        "three factors turn one plane at most; the 5-cycles of S5 need two",
        f"letter {turn} is a 5-cycle, and the letters are all of S5",
    )


def _gated(question: Question) -> bool:
    return question.architecture.layer == "gated-deltanet"


HOUSEHOLDER = Rules(
    (one_layer_can, rotations_can, two_layers_can, any_depth_can, blocks_can, levels_can),  # mostly those of few layers first
    (never_turns_cannot, symmetric_gate_cannot, all_of_s5_cannot),
    lambda question: UNCOVERED,
)
