"""Rules for layers whose gates are a diagonal and a low-rank matrix: DeltaNet with channel gates (KDA), RWKV-7.

Both contain DeltaNet. A diagonal of signs is itself a product of reflections, so that together with one factor it makes a
rotation. A zero on the diagonal ends a path of states that leads to the sink, and so saves a factor.
"""

from __future__ import annotations

import re

from eigentrack.automata.letter_maps import changed_rank, injective_sink, letter_maps
from eigentrack.expressivity.householder_rules import UNCOVERED, settles, symmetric_gate_cannot
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
from eigentrack.expressivity.verdict import Question, Rules, Verdict

# groups of rotations of the plane, or of the space: in the coordinates used, the axis of every turn lies in a coordinate plane,
# except for half-turns
ONE_FACTOR_ROTATIONS = r"D\d+|S3|A4|S4"


def every_language_can(question: Question) -> Verdict | None:
    if not (question.any_depth and question.flips and question.forgets_and_keeps) or question.rounds:
        return None
    reason = "every regular language: one reflection per token, as in DeltaNet"
    return question.can(derived("9", stated(RWKV7)), ENOUGH_BITS, reason)


def real_eigenvalues_cannot(question: Question) -> Verdict | None:
    """Return "cannot" if the period of some letter is too long for matrices with real eigenvalues.

    On a repeated letter the state settles, or, in one layer with negative eigenvalues, alternates between two states.
    """
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
    if not question.has_layers(2) and (slow := [letter for letter, order in orders.items() if order > 2]):
        return question.cannot(
            proved(f"{GRAZZI}, Theorem 2, for one layer"),
            CASTS,
            "every token's matrix has real eigenvalues: a repeated letter makes the state settle or alternate",
            f"letter {slow[0]} acts with period {orders[slow[0]]}",
        )
    return None


def signed_rotations_can(question: Question) -> Verdict | None:
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


def ended_paths_can(question: Question) -> Verdict | None:
    """Return "can" if all letters are one-to-one on the states that they do not send to a sink, and the factors are enough.

    The gate has a zero for each state that is sent to the sink, and the factors are swaps.
    """
    sink = injective_sink(question.dfa)
    if sink is None or not (question.forgets_and_keeps or question.architecture.layer == "kda"):
        return None
    factors = max(
        changed_rank(images) - sum(image == sink for state, image in enumerate(images) if state != sink)
        for images in letter_maps(question.dfa).values()
    )
    if not question.has_factors(factors) or (factors and not question.flips):
        return None
    amount = f"{factors} factor{'s' if factors != 1 else ''} per token, one layer"
    reason = f"letters are one-to-one, up to an absorbing state: the gate ends paths, {amount}"
    return question.can(derived("5"), SMALL_INTEGERS, reason)


def without_turns_cannot(question: Question) -> Verdict | None:
    if question.flips or question.language.star_free or not question.casts:
        return None
    return settles(question)


# factors and gates have the same eigenvalue range
CHANNEL_GATED = Rules(
    (signed_rotations_can, ended_paths_can),
    (without_turns_cannot,),
    lambda question: UNCOVERED,
)
# gates in [0, 1] and factors in the range: the diagonal ends paths but never rotates
KDA = Rules(
    (ended_paths_can,),
    (without_turns_cannot, symmetric_gate_cannot),
    lambda question: UNCOVERED,
)
# the range is that of the eigenvalues of each token's matrix
RWKV_7 = Rules(
    (every_language_can,),
    (real_eigenvalues_cannot,),
    lambda question: "its matrices may stretch, and no theorem covers this number of layers",
)
