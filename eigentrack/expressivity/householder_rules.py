"""Verdicts on layers whose gates are products of generalized Householder factors: DeltaNet, DeltaProduct.

Factors in [0, 1] shrink what they move, so that nothing turns for ever; a factor of -1 reflects. A head of one dimension is a
diagonal channel, so that these layers contain the diagonal ones.
"""

from __future__ import annotations

import re
from dataclasses import replace

from eigentrack.automata.letter_maps import changed_rank, injective_sink, is_permutation, is_swap_or_identity, letter_maps
from eigentrack.expressivity.diagonal_rules import diagonal
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
from eigentrack.expressivity.verdict import Question, Verdict

UNCOVERED = "no theorem covers this number of layers and factors"
_CASCADE = proved(f"{GRAZZI}, Theorem 4") + "; the delay it lacks is in docs/theory.md, section 4"


def householder(question: Question) -> Verdict:
    """The first rule that applies: what never turns, what can be built with few layers before many, what one layer cannot."""
    rules = (_never_turns, _one_layer, _rotations, _two_layers, _blocks, _any_depth, _levels, _symmetric_gate, _all_of_s5)
    return next(filter(None, (rule(question) for rule in rules)), None) or _as_channels(question)


def _never_turns(question: Question) -> Verdict | None:
    """No eigenvalue -1: repeated, every product of gates converges."""
    language, householders = question.language, question.architecture.householders
    if question.flips or language.star_free:
        return None
    if not question.casts:
        return question.unknown("the theorem is about casts of exact products")
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
    """Return that a layer without the eigenvalue -1 cannot recognise a language that is not star-free."""
    return question.cannot(
        derived("6"),
        CASTS_OFF_BOUNDARY,
        "every eigenvalue of a word's product is 1 or of modulus below 1: the state settles on a repeated word",
        question.why_not("star_free"),
    )


def _one_layer(question: Question) -> Verdict | None:
    if not question.forgets_and_keeps:
        return None
    gated = question.architecture.layer == "gated-deltanet"
    factors = one_layer_factors(question.dfa, Head(question.flips, gated))
    if factors is None or not question.has_factors(factors):
        return None
    maps = tuple(letter_maps(question.dfa).values())
    amount = f"{factors} factor{'s' if factors > 1 else ''} a token, one layer"
    if all(map(is_permutation, maps)):
        theorem = proved(f"{GRAZZI}, Theorem 3") + "; heads and rank in docs/theory.md, section 5"
        do = "swap two states or keep all" if all(map(is_swap_or_identity, maps)) else "permute the states"
        return question.can(theorem, SMALL_INTEGERS, f"letters {do}: {amount}")
    if injective_sink(question.dfa) is not None and max(map(changed_rank, maps)) == factors:
        return question.can(derived("5"), SMALL_INTEGERS, f"letters are one-to-one, up to an absorbing state: {amount}")
    return question.can(
        derived("5"), ENOUGH_BITS, f"splits into heads of permutations, partial injections, resets and delays: {amount}"
    )


def _rotations(question: Question) -> Verdict | None:
    """Two reflections make a rotation."""
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


def _two_layers(question: Question) -> Verdict | None:
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


def _blocks(question: Question) -> Verdict | None:
    """Letters are gathered in blocks, and the permutation of a block is worked off as swaps during the next one."""
    if not (question.flips and question.language.group) or question.any_depth or question.rounds:
        return None
    needed = 4 if question.architecture.householders == 1 else 3
    if not question.has_layers(needed):
        return None
    return question.can(
        stated(f"{DELTAPRODUCT}, Theorem 1") + "; docs/theory.md, section 9",
        ROUNDED_ANGLES,
        f"a group language: {needed} layers and a large look-up table",
    )


def _any_depth(question: Question) -> Verdict | None:
    if not question.any_depth or not question.forgets_and_keeps:
        return None
    if question.language.star_free and not question.flips:
        return question.can(derived("4"), ENOUGH_BITS, "star-free: a cascade of flip-flops in heads of one dimension")
    if not question.flips:
        return None
    reason = "every regular language: a cascade of permutations and resets"
    if question.architecture.layer == "gated-deltanet":
        return question.can(stated(f"{DELTAPRODUCT}, Theorem 2"), ENOUGH_BITS, reason)
    if question.architecture.householders is None:
        return question.can(_CASCADE, ENOUGH_BITS, reason)
    return question.can(derived("9", f"{DELTAPRODUCT}, Theorem 1, for groups"), ENOUGH_BITS, reason)


def _levels(question: Question) -> Verdict | None:
    """A cascade of few enough levels."""
    built = question.construction
    if built is None:
        return None
    return question.can(_CASCADE, ENOUGH_BITS, f"a cascade of permutations and resets: {built.sizes}")


def _symmetric_gate(question: Question) -> Verdict | None:
    """One factor is a symmetric matrix: on a repeated letter the state of one layer has a period of at most 2."""
    architecture = question.architecture
    if architecture.layers != 1 or architecture.householders != 1 or not question.casts:
        return None
    slow = [letter for letter, order in question.language.letter_orders.items() if order > 2]
    if not slow:
        return None
    return question.cannot(
        proved(f"{GRAZZI}, Theorem 2, for one layer"),
        CASTS,
        "a gate with real eigenvalues makes a repeated letter settle, or alternate between two states",
        f"letter {slow[0]} acts with period {question.language.letter_orders[slow[0]]}",
    )


def _all_of_s5(question: Question) -> Verdict | None:
    architecture, language = question.architecture, question.language
    if architecture.layers != 1 or question.has_factors(4) or not question.casts:
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


def _as_channels(question: Question) -> Verdict:
    """Heads of one dimension are a diagonal layer, so that what it can do, this layer can."""
    verdict = diagonal(question.about(layer="diagonal", householders=None))
    if verdict.answer == "can":
        return replace(verdict, architecture=question.architecture, witness=None)
    return question.unknown(UNCOVERED)
