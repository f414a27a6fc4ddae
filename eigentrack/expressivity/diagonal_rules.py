"""Rules for diagonal layers: real gates (Mamba, GLA, mLSTM), gates in an open interval, complex gates.

With gates in [0, 1] a layer keeps the order of floats, so that its monoid has no groups. With gates in [-1, 1] it keeps or
reverses the order, so that its groups are products of Z2, and the groups of L layers have a series of at most L such factors.
"""

from __future__ import annotations

from dataclasses import replace

from eigentrack.automata.letter_maps import letter_maps
from eigentrack.automata.permutation_group import abelian_length, two_length
from eigentrack.expressivity.one_layer import one_layer_of_channels
from eigentrack.expressivity.sources import (
    CASTS,
    CASTS_OF_THE_RECURRENCE,
    CONSTRAINED,
    ENOUGH_BITS,
    FINITE_OR_SEQUENTIAL,
    GRAZZI,
    LOG,
    MERRILL,
    METRIC_AUTOMATA,
    ROUNDED_ANGLES,
    SARROF,
    SEQUENTIAL,
    SHAKERINAVA,
    SMALL_INTEGERS,
    derived,
    proved,
    stated,
)
from eigentrack.expressivity.verdict import Question, Rules, Verdict


def diagonal_can(question: Question) -> Verdict | None:
    language = question.language
    if language.definite:
        return question.can(derived("4"), ENOUGH_BITS, "the last few letters decide: one layer of fading gates keeps them")
    if not question.forgets_and_keeps:
        return None
    if one_layer_of_channels(question.dfa, question.flips):
        return question.can(
            f"{stated(SHAKERINAVA)}; docs/theory.md, section 5" if language.group else derived("5"),
            SMALL_INTEGERS,
            "splits into channels of two values that a letter keeps, sets or flips",
        )
    if language.star_free and question.any_depth:
        return question.can(stated(f"{SARROF}, Theorem 4"), ENOUGH_BITS, "star-free: a cascade of flip-flops")
    if question.flips and language.two_groups_only and question.any_depth:
        return question.can(derived("4"), ENOUGH_BITS, "all groups are 2-groups: a cascade of flip-flops and sign changes")
    if question.flips and language.two_groups_only and language.group and question.has_layers(_two_steps(question)):
        return question.can(
            derived("4", f"{GRAZZI}, Theorem 2, for (1^m)*"),
            SMALL_INTEGERS,
            f"a 2-group in {_two_steps(question)} steps with products of Z2 as factors, one step a layer",
        )
    if (built := question.construction) is not None:
        return question.can(derived("4"), ENOUGH_BITS, f"a cascade of flip-flops and sign changes: {built.sizes}")
    return None


def diagonal_cannot(question: Question) -> Verdict | None:
    language, low = question.language, question.eigenvalues.low
    if question.architecture.precision == "log":
        return None
    if not language.star_free and low >= 0:
        return question.cannot(
            derived("2", f"{stated(SARROF)}, Theorem 4, and Theorem 2 for parity"),
            SEQUENTIAL if question.rounds else FINITE_OR_SEQUENTIAL,
            "nonnegative gates keep the order of floats, and order-preserving maps contain no group",
            question.why_not("star_free"),
        )
    if not language.two_groups_only:
        return question.cannot(
            derived("3", f"{GRAZZI}, Theorem 2, for (1^m)*"),
            SEQUENTIAL if question.rounds else FINITE_OR_SEQUENTIAL,
            "the groups of layers with real gates are 2-groups",
            question.why_not("two_groups_only"),
        )
    layers = question.architecture.layers
    if layers is not None and (steps := _two_steps(question)) > layers:
        return question.cannot(
            derived("3", f"{GRAZZI}, Theorem 2, for (1^m)*"),
            FINITE_OR_SEQUENTIAL if _one_element_decides(question) and not question.rounds else SEQUENTIAL,
            f"a group in the language takes {steps} steps with products of Z2 as factors, a layer makes one",
            _too_many_steps(question, layers),
        )
    if not language.star_free and low > -1 and not question.rounds:
        return question.cannot(
            derived("6"),
            CASTS,
            "without the eigenvalue -1 every product of gates converges when repeated",
            question.why_not("star_free"),
        )
    return None


def outside_tc0(question: Question) -> Verdict | None:
    """Return "cannot" for a language with a group that is not solvable; the theorem does not speak of IEEE floats."""
    if question.language.solvable or question.rounds:
        return None
    return question.cannot(
        stated(f"{MERRILL}, Theorem 4.4"),
        f"{LOG}, hence also finite; unless TC⁰ = NC¹",
        "diagonal layers are in TC⁰, and the language is NC¹-complete",
        question.why_not("solvable"),
    )


def mlstm_can(question: Question) -> Verdict | None:
    """Return "can" if a diagonal layer can: keys of length ½ keep the normaliser out.

    With gates 0 and ±1 and a write gate of 1 the stabilised form is exact. Otherwise its rounding has not been studied.
    """
    verdict = diagonal_can(question.about(layer="diagonal"))
    if verdict is None or (question.rounds and verdict.precision != SMALL_INTEGERS):
        return None
    return replace(verdict, architecture=question.architecture, theorem=derived("8"), witness=None)


def mlstm_cannot(question: Question) -> Verdict | None:
    """Return "cannot" if a diagonal layer cannot, for casts of exact products only."""
    if question.rounds:
        return None
    verdict = diagonal_cannot(question.about(layer="diagonal"))
    if verdict is None or verdict.precision == SEQUENTIAL:
        return None
    repeats = "which settles" if not question.flips else "whose period at most doubles in each layer"
    return question.cannot(
        derived("8"),
        CASTS_OF_THE_RECURRENCE,
        f"on a repeated word each entry of C and n is a diagonal channel, {repeats}",
        str(verdict.witness),
    )


def open_diagonal_can(question: Question) -> Verdict | None:
    """Return "can" for gates strictly between the ends of the range: the sign of a shrinking state is a value of its own."""
    language = question.language
    if language.definite:
        model = CONSTRAINED if question.constrained else "η-finite"
        return question.can(derived("7"), model, "the last few letters decide, and a contraction keeps them apart")
    low, high = question.eigenvalues.ends
    if not question.constrained or low >= 0.5 or high <= 0:  # without a gate between 0 and ½, older letters drown a new one
        return None
    flips = low < 0
    enough = question.any_depth or one_layer_of_channels(question.dfa, flips)
    if language.star_free and enough:
        return question.can(
            proved(f"{METRIC_AUTOMATA}, Theorem 8"),
            CONSTRAINED,
            "star-free: a cascade of flip-flops whose read-out sees the sign of a shrinking state",
        )
    if flips and language.two_groups_only and enough:
        return question.can(
            derived("7"),
            CONSTRAINED,
            "all groups are 2-groups: flip-flops and sign changes whose read-out sees the sign of a shrinking state",
        )
    return None


def open_diagonal_cannot(question: Question) -> Verdict | None:
    language, layers = question.language, question.architecture.layers
    if not question.constrained:
        if language.definite:
            return None
        return question.cannot(
            derived("7", f"{METRIC_AUTOMATA}, Theorem 7, for flip-flop"),
            "η-finite",
            "gates of modulus below 1 contract: a repeated word merges all states",
            question.why_not("definite"),
        )
    if question.eigenvalues.low >= 0:
        if language.star_free:
            return None
        return question.cannot(
            derived("7", f"{METRIC_AUTOMATA}, Theorem 9"),
            CONSTRAINED,
            "positive gates settle on every repeated word",
            question.why_not("star_free"),
        )
    if not language.two_groups_only:
        return question.cannot(
            derived("7"),
            CONSTRAINED,
            "on a repeated word the state of each layer settles at even and at odd times, so that periods are powers of 2",
            question.why_not("two_groups_only"),
        )
    if layers is not None and _two_steps(question) > layers and _one_element_decides(question):
        return question.cannot(
            derived("7"),
            CONSTRAINED,
            f"on a repeated word {layers} layers have periods of at most {2**layers}",
            _too_many_steps(question, layers),
        )
    return None


def complex_can(question: Question) -> Verdict | None:
    language = question.language
    if language.group and language.commutative and all(4 % order == 0 for order in language.letter_orders.values()):
        return question.can(derived("4"), SMALL_INTEGERS, "letters of period 1, 2 and 4 that commute: quarter turns are exact")
    if question.rounds or not language.solvable:
        return None
    if language.group and question.has_layers(steps := _abelian_steps(question)):
        reason = f"{language.subgroups[0].name} has a series of length {steps} with abelian factors"
        return question.can(stated(SHAKERINAVA), ROUNDED_ANGLES, reason)
    if question.any_depth:
        return question.can(
            derived("4"),
            ROUNDED_ANGLES,
            "all groups are solvable: a cascade of flip-flops and of cycles, each cycle a root of unity",
        )
    return None


def complex_group_cannot(question: Question) -> Verdict | None:
    language = question.language
    if not language.group or not question.casts:
        return None
    if not language.solvable:
        return question.cannot(
            stated(SHAKERINAVA), "finite precision", "the group is not solvable", question.why_not("solvable")
        )
    if question.has_layers(steps := _abelian_steps(question)):
        return None
    name = language.subgroups[0].name
    return question.cannot(
        stated(SHAKERINAVA),
        "finite precision",
        f"every series of {name} with abelian factors has at least {steps} of them, and a layer makes one",
        question.why_not("commutative"),
    )


def _undecided(question: Question) -> str:
    if question.architecture.precision == "log":
        return "a state that grows with the length may count without bound; no theorem excludes it"
    if question.architecture.layer == "mlstm" and question.rounds:
        return "the rounding of the stabilised form has not been studied"
    if not question.any_depth:
        return "how many layers this language takes is not known"
    return "no theorem covers this range of eigenvalues"


def _undecided_complex(question: Question) -> str:
    return "roots of unity are rounded; what that costs has not been proved" if question.rounds else _undecided(question)


def _two_steps(question: Question) -> int:
    """Return the length of the shortest series with products of Z2 as factors; a lower bound unless it is a group language."""
    if question.language.group:
        return two_length(tuple(letter_maps(question.dfa).values()))
    return max((group.least_two_length for group in question.language.subgroups), default=0)


def _one_element_decides(question: Question) -> bool:
    """Return whether a single element of a group is known to take too many steps; models other than IEEE ask for that."""
    layers, language = question.architecture.layers, question.language
    if layers == 1 or all(group.abelian for group in language.subgroups):
        return True
    return layers is not None and any(order > 2**layers for order in language.letter_orders.values())


def _abelian_steps(question: Question) -> int:
    return 1 if question.language.commutative else abelian_length(tuple(letter_maps(question.dfa).values()))


def _too_many_steps(question: Question, layers: int) -> str:
    """Return the witness in words: a letter of too long a period, letters that do not commute (one layer), or the group."""
    language = question.language
    long = [letter for letter, order in language.letter_orders.items() if order > 2**layers]
    if long:
        return f"letter {long[0]} acts with period {language.letter_orders[long[0]]}"
    if language.group:
        return question.why_not("commutative") if layers == 1 else f"the letters generate {language.subgroups[0].name}"
    return f"it contains the group {max(language.subgroups, key=lambda group: group.least_two_length).name}"


DIAGONAL = Rules((diagonal_can,), (diagonal_cannot, outside_tc0), _undecided)
MLSTM = Rules((mlstm_can,), (mlstm_cannot, outside_tc0), _undecided)
OPEN_DIAGONAL = Rules((open_diagonal_can,), (open_diagonal_cannot,), _undecided)
COMPLEX_DIAGONAL = Rules((complex_can,), (complex_group_cannot, outside_tc0), _undecided_complex)
