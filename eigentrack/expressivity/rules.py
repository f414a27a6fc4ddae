"""From a language and an architecture to a verdict: rules for each family of layers; what no rule decides is unknown.

The rules of diagonal, Householder and low-rank layers have files of their own; those of dense matrices, non-linear recurrences,
TTT-Linear, transformers and robust systems of any kind are here.
"""

from __future__ import annotations

from collections.abc import Callable

from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.language_class import LanguageClass
from eigentrack.expressivity.architecture import LINEAR, STANDARD, Architecture
from eigentrack.expressivity.diagonal_rules import complex_diagonal, diagonal, mlstm, open_diagonal, s4d, s4d_mamba, s4d_real
from eigentrack.expressivity.householder_rules import householder
from eigentrack.expressivity.low_rank_rules import channel_gated, kda, rwkv7
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
from eigentrack.expressivity.verdict import Question, Verdict

_FIXED = "fixed precision, strict future mask, no positions"
_ROBUST = "robust: exact reals with an error of at most ε in each step"


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


RULES: dict[str, Callable[[Question], Verdict]] = {
    "diagonal": diagonal,
    "open-diagonal": open_diagonal,
    "complex-diagonal": complex_diagonal,
    "s4d": s4d,
    "s4d-real": s4d_real,
    "s4d-mamba": s4d_mamba,
    "mlstm": mlstm,
    "deltanet": householder,
    "gated-deltanet": householder,
    "channel-gated-deltanet": channel_gated,
    "kda": kda,
    "rwkv7": rwkv7,
    "ttt": ttt,
    "dense": dense,
    "attention": attention,
    "slstm": nonlinear,
    "lstm": nonlinear,
}


def judge(dfa: DFA, language: LanguageClass, architecture: Architecture, image_limit: int = DEFAULT_LIMIT) -> Verdict:
    """Can the architecture recognise the language of the DFA, whose class this is? Cascades beyond the limit are not tried."""
    question = Question(dfa if dfa.states == language.states else minimal(dfa), language, architecture, image_limit)
    if language.states == 1:
        return question.can(derived("1"), "any", "the answer is the same for all words")
    rules = robust if architecture.precision == "robust" else RULES[architecture.layer]
    return rules(question)


def verdicts(dfa: DFA, language: LanguageClass, image_limit: int = DEFAULT_LIMIT) -> tuple[Verdict, ...]:
    """On all the standard architectures, in their order."""
    return tuple(judge(dfa, language, architecture, image_limit) for architecture in STANDARD)
