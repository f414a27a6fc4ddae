"""Verdicts on layers whose gates are a diagonal matrix and something of low rank: DeltaNet with channel gates (KDA), RWKV-7.

Both contain DeltaNet. A signed diagonal is itself a product of reflections, so that one factor beside it makes a rotation; a
zero in it ends a path of states, which would take a factor of its own.
"""

from __future__ import annotations

import re

from eigentrack.automata.letter_maps import changed_rank, injective_sink, letter_maps
from eigentrack.expressivity.householder_rules import UNCOVERED, householder, settles
from eigentrack.expressivity.sources import (
    CASTS,
    ENOUGH_BITS,
    GRAZZI,
    ROUNDED_ANGLES,
    RWKV7,
    SMALL_INTEGERS,
    derived,
    proved,
    stated,
)
from eigentrack.expressivity.verdict import Question, Verdict

# of the plane, or of the space in such coordinates that the axis of every turn, but for half-turns, lies in a coordinate plane
ONE_FACTOR_ROTATIONS = r"D\d+|S3|A4|S4"


def channel_gated(question: Question) -> Verdict:
    """The range is that of the factors and of the gates."""
    return _rotations(question) or kda(question)


def kda(question: Question) -> Verdict:
    """Gates in [0, 1], factors in the range: the diagonal ends paths, and turns nothing."""
    found = _ended_paths(question) or _as_gated(question) or _never_turns(question)
    return found or question.unknown(UNCOVERED)


def rwkv7(question: Question) -> Verdict:
    """The range is that of the eigenvalues of each token's matrix."""
    if question.any_depth and question.flips and question.forgets_and_keeps and not question.rounds:
        reason = "every regular language: one reflection a token, as in DeltaNet"
        return question.can(derived("9", stated(RWKV7)), ENOUGH_BITS, reason)
    inside = householder(question.about(layer="deltanet", householders=1))
    if inside.answer == "can":
        return question.can(inside.theorem, inside.precision, inside.reason)
    return _real_eigenvalues(question) or question.unknown(
        "its matrices may stretch, and no theorem covers this number of layers"
    )


def _real_eigenvalues(question: Question) -> Verdict | None:
    """On a repeated letter the state settles, or, in one layer with negative eigenvalues, alternates between two states."""
    orders = question.language.letter_orders
    if not question.casts:
        return None
    if question.eigenvalues.low >= 0 and (turning := [letter for letter, order in orders.items() if order > 1]):
        return question.cannot(
            proved(f"{GRAZZI}, Theorem 1"),
            CASTS,
            "every token's matrix has real eigenvalues ≥ 0: the state settles on a repeated letter",
            f"letter {turning[0]} acts with period {orders[turning[0]]}",
        )
    if question.architecture.layers == 1 and (slow := [letter for letter, order in orders.items() if order > 2]):
        return question.cannot(
            proved(f"{GRAZZI}, Theorem 2, for one layer"),
            CASTS,
            "every token's matrix has real eigenvalues: a repeated letter makes the state settle or alternate",
            f"letter {slow[0]} acts with period {orders[slow[0]]}",
        )
    return None


def _rotations(question: Question) -> Verdict | None:
    language = question.language
    if not (question.flips and question.eigenvalues.high == 1 and language.group) or question.rounds:
        return None
    name = language.subgroups[0].name
    if not language.commutative and not re.fullmatch(ONE_FACTOR_ROTATIONS, name):
        return None
    what = "a product of cycles, each a rotation of a plane" if language.commutative else "a group of rotations and reflections"
    return question.can(
        derived("5"), ROUNDED_ANGLES, f"{name} is {what}: a gate of signs and one factor make a rotation, one layer"
    )


def _ended_paths(question: Question) -> Verdict | None:
    """Letters that are one-to-one but for a sink: a zero in the gate for each state that is sent there, swaps for the rest."""
    sink = injective_sink(question.dfa)
    if sink is None or not question.forgets_and_keeps:
        return None
    factors = max(
        changed_rank(images) - sum(image == sink for state, image in enumerate(images) if state != sink)
        for images in letter_maps(question.dfa).values()
    )
    if not question.has_factors(factors) or (factors and not question.flips):
        return None
    amount = f"{factors} factor{'s' if factors != 1 else ''} a token, one layer"
    reason = f"letters are one-to-one, up to an absorbing state: the gate ends paths, {amount}"
    return question.can(derived("5"), SMALL_INTEGERS, reason)


def _as_gated(question: Question) -> Verdict | None:
    """Gates that are alike in all channels are those of gated DeltaNet."""
    inside = householder(question.about(layer="gated-deltanet"))
    return question.can(inside.theorem, inside.precision, inside.reason) if inside.answer == "can" else None


def _never_turns(question: Question) -> Verdict | None:
    if question.flips or question.language.star_free or not question.casts:
        return None
    return settles(question)
