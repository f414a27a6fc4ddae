"""Verdicts on dense matrices, non-linear recurrences, TTT-Linear and transformers, and on robust linear systems of any kind."""

from __future__ import annotations

from eigentrack.expressivity.architecture import LINEAR
from eigentrack.expressivity.question import Question
from eigentrack.expressivity.sources import (
    GRAZZI,
    LI_COTTERELL,
    LIU,
    LOG,
    MERRILL,
    MERRILL_SABHARWAL,
    METRIC_AUTOMATA,
    SMALL_INTEGERS,
    derived,
    proved,
    stated,
)
from eigentrack.expressivity.verdict import Verdict


def dense(question: Question) -> Verdict:
    return question.can(
        proved(f"{GRAZZI}, appendix B.3"), SMALL_INTEGERS, "one layer: each letter is the matrix of its transitions"
    )


def nonlinear(question: Question) -> Verdict:
    return question.can(
        proved(f"{GRAZZI}, appendix B.3") + f"; {stated(MERRILL)}, Theorem 5.1",
        "finite precision",
        "one layer: the recurrence applies the transition function itself",
    )


def ttt(question: Question) -> Verdict:
    """Neither the theorems on linear recurrences nor those on free non-linear ones speak of it."""
    return question.unknown(
        "the gradient passes through a norm: no matrix is its transition, nor is its update a free function"
    )


def attention(question: Question) -> Verdict:
    language = question.language
    if question.architecture.precision == "log":
        if not language.solvable:
            return question.cannot(
                stated(MERRILL_SABHARWAL),
                f"{LOG}, constant depth; unless TC⁰ = NC¹",
                "transformers of constant depth are in TC⁰, and the language is NC¹-complete",
                question.why_not("solvable"),
            )
        if question.any_depth:
            return question.can(
                stated(LIU),
                f"{LOG}, constant depth, weights that may depend on the length",
                "solvable: a shortcut of constant depth",
            )
        return question.unknown("how many layers this language takes is not known")
    if question.rounds:
        return question.unknown("the theorem is about fixed precision with its own rounding")
    if not language.r_trivial:
        return question.cannot(
            stated(LI_COTTERELL),
            _FIXED,
            "transformers of fixed precision recognise R-trivial languages only",
            question.why_not("r_trivial"),
        )
    if question.any_depth:
        return question.can(stated(LI_COTTERELL), _FIXED, "R-trivial")
    return question.unknown("how many layers this language takes is not known")


def robust(question: Question) -> Verdict:
    """Every state is still right after an error of at most ε in each step."""
    language, layer = question.language, question.architecture.layer
    if layer in LINEAR:
        if language.definite:
            return question.can(derived("7"), _ROBUST, "the last few letters decide, and a contraction keeps them apart")
        return question.cannot(
            derived("7", f"{METRIC_AUTOMATA}, Theorem 4, for flip-flop"),
            _ROBUST,
            "a robust linear system contracts: a repeated word merges all states",
            question.why_not("definite"),
        )
    if layer in ("slstm", "lstm"):
        beside = f"{METRIC_AUTOMATA}, Theorem 5, for star-free languages" if language.star_free and layer == "slstm" else ""
        return question.can(derived("7", beside), _ROBUST, "one layer: threshold units pull every state back to ±1")
    return question.unknown("robust recognition of this language by this layer is an open question")


_FIXED = "fixed precision, strict future mask, no positions"
_ROBUST = "robust: exact reals with an error of at most ε in each step"
