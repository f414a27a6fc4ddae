"""Verdicts on diagonal layers: real gates (Mamba, GLA, mLSTM), gates of an open interval, complex ones, S4D, S4D with Mamba.

With gates in [0, 1] a layer keeps the order of floats, so that its monoid has no groups; with gates in [-1, 1] it keeps or
reverses it, so that its groups are products of Z2, and those of L layers take at most L such steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eigentrack.automata.letter_maps import letter_maps
from eigentrack.automata.permutation_group import abelian_length, two_length
from eigentrack.expressivity.one_layer import one_layer_of_channels
from eigentrack.expressivity.sources import (
    CASTS_OFF_BOUNDARY,
    ENOUGH_BITS,
    FINITE_OR_SEQUENTIAL,
    GRAZZI,
    KHAVARI,
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
from eigentrack.expressivity.verdict import Question, Verdict
from eigentrack.spectrum import EigenRange


def diagonal(question: Question) -> Verdict:
    if question.architecture.precision == "log":
        return _log_precision(question, diagonal)
    return _impossible(question) or _possible(question) or _undecided(question)


def mlstm(question: Question) -> Verdict:
    """A head is a diagonal layer with one gate; what is known concerns exact products, not how the stabilised form rounds."""
    verdict = diagonal(question.about(layer="diagonal"))
    if question.rounds and verdict.answer == "cannot":
        return question.unknown("the rounding of the stabilised form has not been studied")
    theorem = verdict.theorem if verdict.answer == "unknown" else derived("8")
    witness = None if verdict.answer == "can" else verdict.witness  # the compiler builds no mLSTM
    return replace(verdict, architecture=question.architecture, theorem=theorem, witness=witness)


def open_diagonal(question: Question) -> Verdict:
    language = question.language
    if question.architecture.precision == "eta-finite":
        if language.definite:
            return question.can(derived("7"), "η-finite", "the last few letters decide, and a contraction keeps them apart")
        return question.cannot(
            derived("7", f"{METRIC_AUTOMATA}, Theorem 7, for flip-flop"),
            "η-finite",
            "gates below 1 contract: a repeated word merges all states",
            question.why_not("definite"),
        )
    if not language.star_free:
        return question.cannot(
            derived("7", f"{METRIC_AUTOMATA}, Theorem 9"),
            "geometrically constrained",
            "positive gates settle on every repeated word",
            question.why_not("star_free"),
        )
    if question.any_depth or one_layer_of_channels(question.dfa, flips=False):
        return question.can(
            proved(f"{METRIC_AUTOMATA}, Theorem 8"),
            "geometrically constrained",
            "star-free: a cascade of flip-flops whose read-out sees the sign of a shrinking state",
        )
    return _undecided(question)


def complex_diagonal(question: Question) -> Verdict:
    language = question.language
    if question.architecture.precision == "log":
        return _log_precision(question, complex_diagonal)
    real = diagonal(question.about(layer="diagonal", eigenvalues=EigenRange(-1, 1)))
    if real.answer == "can":
        return question.as_known_of(real)
    if language.group and language.commutative and all(4 % order == 0 for order in language.letter_orders.values()):
        return question.can(derived("4"), SMALL_INTEGERS, "letters of period 1, 2 and 4 that commute: quarter turns are exact")
    if question.rounds:
        return question.unknown("roots of unity are rounded; what that costs has not been proved")
    if language.group:
        return _complex_group(question)
    if not language.solvable:
        return _outside_tc0(question)
    if question.any_depth:
        return question.can(
            derived("4"),
            ROUNDED_ANGLES,
            "all groups are solvable: a cascade of flip-flops and of cycles, each cycle a root of unity",
        )
    fixed = s4d(question)  # gates that do not look at the input are gates
    return fixed if fixed.answer == "can" else _undecided(question)


def s4d(question: Question) -> Verdict:
    """Any gates of the unit disk, the same for every letter."""
    language, maps = question.language, set(letter_maps(question.dfa).values())
    if language.definite:
        return question.can(derived("8"), ENOUGH_BITS, "the last few letters decide: a fixed gate keeps them as digits")
    if len(maps) == 1 and not question.rounds:
        return question.can(
            derived("8"),
            ROUNDED_ANGLES,
            "only the length matters: a fixed root of unity follows it, and a fading gate its start",
        )
    if not language.solvable:
        return _outside_tc0(question)
    if question.casts and (pair := _parity_letters(question)) is not None:
        return question.cannot(
            stated(KHAVARI),
            "finite precision",
            "gates that do not depend on the input cannot follow parity, at any depth",
            f"on the letters {pair[0]} and {pair[1]} the language is parity",
        )
    return question.unknown("known are the last letters, the length and parity")


def s4d_real(question: Question) -> Verdict:
    """Any gates of the range, the same for every letter: among those of the disk, and among those that look at the input."""
    if question.language.definite:
        return question.can(derived("8"), ENOUGH_BITS, "the last few letters decide: a fixed gate keeps them as digits")
    if question.flips and set(letter_maps(question.dfa).values()) == {(1, 0)}:
        return question.can(derived("8"), SMALL_INTEGERS, "only the length modulo 2 matters: a fixed gate of -1 follows it")
    for wider in (diagonal(question.about(layer="diagonal")), s4d(question.about(layer="s4d", eigenvalues=None))):
        if wider.answer == "cannot":
            return question.as_known_of(wider)
    return question.unknown("known are the last letters, the length modulo 2 and what wider gates cannot do")


def s4d_mamba(question: Question) -> Verdict:
    dfa, language = question.dfa, question.language
    maps = letter_maps(dfa)
    if language.star_free:
        return question.as_known_of(diagonal(question.about(layer="diagonal", eigenvalues=EigenRange(0, 1))))
    if set(maps.values()) == {(1, 0)}:
        return question.can(
            derived("8"), SMALL_INTEGERS, "only the length modulo 2 matters: one input-independent gate of -1 follows it"
        )
    if (pair := _parity_letters(question)) is not None:
        return question.cannot(
            stated(KHAVARI),
            "finite precision",
            "no layer both depends on its input and has negative eigenvalues",
            f"on the letters {pair[0]} and {pair[1]} the language is parity",
        )
    return question.unknown("only parity is known to be out of reach")


def _impossible(question: Question) -> Verdict | None:
    language, low = question.language, question.eigenvalues.low
    if not language.two_groups_only and low < 0:
        return question.cannot(
            derived("3", f"{GRAZZI}, Theorem 2, for (1^m)*"),
            SEQUENTIAL if question.rounds else FINITE_OR_SEQUENTIAL,
            "the groups of layers with real gates are 2-groups",
            question.why_not("two_groups_only"),
        )
    if not language.star_free and low >= 0:
        return question.cannot(
            derived("2", f"{stated(SARROF)}, Theorem 4, and Theorem 2 for parity"),
            SEQUENTIAL if question.rounds else FINITE_OR_SEQUENTIAL,
            "nonnegative gates keep the order of floats, and order-preserving maps contain no group",
            question.why_not("star_free"),
        )
    layers = question.architecture.layers
    if layers is not None and low < 0 and (steps := _two_steps(question)) > layers:
        # casts of exact products are known to settle on repeated words, so they speak of single elements of a group
        one_element = layers == 1 or all(group.abelian for group in language.subgroups)
        return question.cannot(
            derived("3", f"{GRAZZI}, Theorem 2, for (1^m)*"),
            FINITE_OR_SEQUENTIAL if one_element and not question.rounds else SEQUENTIAL,
            f"a group in the language takes {steps} steps with products of Z2 as factors, a layer makes one",
            _too_many_steps(question, layers),
        )
    if not language.star_free and -1 < low < 0 and not question.rounds:
        return question.cannot(
            derived("6"),
            CASTS_OFF_BOUNDARY,
            "without the eigenvalue -1 every product of gates converges when repeated",
            question.why_not("star_free"),
        )
    return None


def _possible(question: Question) -> Verdict | None:
    language = question.language
    if language.definite and question.eigenvalues.low <= 0 < question.eigenvalues.high:
        return question.can(derived("5"), ENOUGH_BITS, "the last few letters decide: one layer keeps them as digits")
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


def _undecided(question: Question) -> Verdict:
    if not question.any_depth:
        return question.unknown("how many layers this language takes is not known")
    return question.unknown("no theorem covers this range of eigenvalues")


def _two_steps(question: Question) -> int:
    """Steps with products of Z2 as factors: exact for a group language, a lower bound else."""
    if question.language.group:
        return two_length(tuple(letter_maps(question.dfa).values()))
    return max((group.least_two_length for group in question.language.subgroups), default=0)


def _too_many_steps(question: Question, layers: int) -> str:
    """A letter of too long a period, letters that do not commute where one layer would make them, or the group itself."""
    language = question.language
    long = [letter for letter, order in language.letter_orders.items() if order > 2**layers]
    if long:
        return f"letter {long[0]} acts with period {language.letter_orders[long[0]]}"
    if language.group:
        return question.why_not("commutative") if layers == 1 else f"the letters generate {language.subgroups[0].name}"
    return f"it contains the group {max(language.subgroups, key=lambda group: group.least_two_length).name}"


def _complex_group(question: Question) -> Verdict:
    if not question.language.solvable:
        return question.cannot(
            stated(SHAKERINAVA), "finite precision", "the group is not solvable", question.why_not("solvable")
        )
    name = question.language.subgroups[0].name
    steps = 1 if question.language.commutative else abelian_length(tuple(letter_maps(question.dfa).values()))
    if question.has_layers(steps):
        return question.can(stated(SHAKERINAVA), ROUNDED_ANGLES, f"{name} has a series of length {steps} with abelian factors")
    return question.cannot(
        stated(SHAKERINAVA),
        "finite precision",
        f"every series of {name} with abelian factors has at least {steps} of them, and a layer makes one",
        question.why_not("commutative"),
    )


def _log_precision(question: Question, rules: Callable[[Question], Verdict]) -> Verdict:
    if not question.language.solvable:
        return _outside_tc0(question)
    finite = rules(question.about(precision="finite"))
    if finite.answer == "can":
        return question.as_known_of(finite)
    return question.unknown("a state that grows with the length may count without bound; no theorem excludes it")


def _outside_tc0(question: Question) -> Verdict:
    return question.cannot(
        stated(f"{MERRILL}, Theorem 4.4"),
        f"{LOG}, hence also finite; unless TC⁰ = NC¹",
        "diagonal layers are in TC⁰, and the language is NC¹-complete",
        question.why_not("solvable"),
    )


def _parity_letters(question: Question) -> tuple[str, str] | None:
    """A letter that keeps and a letter that swaps the start state and another one, of which exactly one accepts."""
    dfa = question.dfa
    for flip, images in letter_maps(dfa).items():
        other = images[dfa.start]
        if other != dfa.start and images[other] == dfa.start and (other in dfa.accepting) != (dfa.start in dfa.accepting):
            for keep, fixed in letter_maps(dfa).items():
                if fixed[dfa.start] == dfa.start and fixed[other] == other:
                    return keep, flip
    return None
