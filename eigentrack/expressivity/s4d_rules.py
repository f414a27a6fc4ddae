"""Rules for layers whose gates are the same for every letter: S4D, complex or real, and real S4D mixed with Mamba."""

from __future__ import annotations

from eigentrack.automata.letter_maps import letter_maps
from eigentrack.expressivity.diagonal_rules import outside_tc0
from eigentrack.expressivity.even_words import turning_even_word
from eigentrack.expressivity.sources import (
    CASTS_OR_SEQUENTIAL,
    ENOUGH_BITS,
    KHAVARI,
    ROUNDED_ANGLES,
    SEQUENTIAL,
    SMALL_INTEGERS,
    derived,
    stated,
)
from eigentrack.expressivity.verdict import Question, Rules, Verdict


def last_letters_can(question: Question) -> Verdict | None:
    if not question.language.definite:
        return None
    return question.can(derived("8"), ENOUGH_BITS, "the last few letters decide: fixed gates keep them")


def length_can(question: Question) -> Verdict | None:
    if len(set(letter_maps(question.dfa).values())) > 1 or question.rounds:
        return None
    reason = "only the length matters: a fixed root of unity follows it, and a fading gate its start"
    return question.can(derived("8"), ROUNDED_ANGLES, reason)


def length_modulo_two_can(question: Question) -> Verdict | None:
    language = question.language
    if len(set(letter_maps(question.dfa).values())) > 1 or not question.flips:
        return None
    if any(order > 2 for order in language.letter_orders.values()):
        return None
    if language.group:
        return question.can(derived("8"), SMALL_INTEGERS, "only the length modulo 2 matters: a fixed gate of -1 follows it")
    reason = "only the length matters, in the end modulo 2: a fixed gate of -1 follows it, and a fading gate its start"
    return question.can(derived("8"), ENOUGH_BITS, reason)


def parity_cannot(question: Question) -> Verdict | None:
    if not question.casts or (pair := _parity_letters(question)) is None:
        return None
    return question.cannot(
        stated(KHAVARI),
        "finite precision",
        "gates that do not depend on the input cannot follow parity, at any depth",
        f"on the letters {pair[0]} and {pair[1]} the language is parity",
    )


def even_words_can(question: Question) -> Verdict | None:
    """Return "can" for any depth if words of even length form an aperiodic monoid."""
    if not question.any_depth or _turning_even_word(question) is not None:
        return None
    return question.can(
        derived("8"),
        ENOUGH_BITS,
        "words of even length do not count: S4D follows the length modulo 2, and Mamba is a cascade of flip-flops on pairs",
    )


def even_words_cannot(question: Question) -> Verdict | None:
    if question.architecture.precision == "log" or (witness := _turning_even_word(question)) is None:
        return None
    return question.cannot(
        derived("8", f"{stated(KHAVARI)}, for parity"),
        SEQUENTIAL if question.rounds else CASTS_OR_SEQUENTIAL,
        "over two tokens a fixed gate is a square: every layer keeps the order of floats, and contains no group",
        witness,
    )


def _turning_even_word(question: Question) -> str | None:
    """Return why words of even length form a monoid that is not aperiodic, or None if it is aperiodic."""
    language = question.language
    if language.star_free:
        return None
    if not language.ac0:  # a group of words of one length n is one of words of length 2n as well
        return question.why_not("ac0")
    if (found := turning_even_word(question.dfa)) is None:
        return None
    word, period = found
    said = "".join(word) if all(len(letter) == 1 for letter in word) else ", ".join(word)
    return f"{said}, a word of even length, acts with period {period}"


def _parity_letters(question: Question) -> tuple[str, str] | None:
    """Return two letters on which the language is parity, or None if there are none.

    The first letter keeps the start state and another state, the second swaps them, and exactly one of the two states accepts.
    """
    dfa = question.dfa
    for flip, images in letter_maps(dfa).items():
        other = images[dfa.start]
        if other != dfa.start and images[other] == dfa.start and (other in dfa.accepting) != (dfa.start in dfa.accepting):
            for keep, fixed in letter_maps(dfa).items():
                if fixed[dfa.start] == dfa.start and fixed[other] == other:
                    return keep, flip
    return None


S4D = Rules(
    (last_letters_can, length_can),
    (outside_tc0, parity_cannot),
    lambda question: "known are the last letters, the length and parity",
)
S4D_REAL = Rules(
    (last_letters_can, length_modulo_two_can),
    (),
    lambda question: "known are the last letters, the length modulo 2 and what larger architectures cannot do",
)
S4D_MAMBA = Rules(
    (even_words_can,),
    (even_words_cannot, outside_tc0),
    lambda question: "how many layers this language takes is not known",
)
