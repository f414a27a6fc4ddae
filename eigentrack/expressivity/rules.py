"""Verdicts on a language and an architecture, by rules and by the partial order of architectures.

An architecture can recognise a language if a rule says so of it, or of an architecture inside of it. It cannot if a rule says
so of it, or of an architecture that contains it. If no rule decides, the verdict is "unknown". So more layers, more factors or
a wider range never take a language away.

The rules of diagonal layers, of S4D, of Householder and of low-rank layers have files of their own; those of dense and of
chosen matrices, non-linear recurrences, TTT-Linear, transformers and robust systems of any kind are here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.language_class import LanguageClass
from eigentrack.expressivity.architecture import LINEAR, STANDARD, Architecture
from eigentrack.expressivity.construction import construction_for
from eigentrack.expressivity.containment import narrower, stacks_around, stacks_inside, wider
from eigentrack.expressivity.diagonal_rules import COMPLEX_DIAGONAL, DIAGONAL, MLSTM, OPEN_DIAGONAL
from eigentrack.expressivity.householder_rules import HOUSEHOLDER
from eigentrack.expressivity.hybrid import Design, Hybrid
from eigentrack.expressivity.low_rank_rules import CHANNEL_GATED, KDA, RWKV_7
from eigentrack.expressivity.s4d_rules import S4D, S4D_MAMBA, S4D_REAL
from eigentrack.expressivity.sources import (
    GRAZZI,
    LI_COTTERELL,
    LIU,
    LOG,
    MERRILL,
    MERRILL_SABHARWAL,
    METRIC_AUTOMATA,
    PD_SSM,
    SD_SSM,
    SMALL_INTEGERS,
    derived,
    proved,
    stated,
)
from eigentrack.expressivity.verdict import Question, Rules, Verdict

_FIXED = "fixed precision, strict future mask, no positions"
_ROBUST = "robust: exact reals with an error of at most ε in each step"


def dense_can(question: Question) -> Verdict:
    return question.can(
        proved(f"{GRAZZI}, appendix B.3"), SMALL_INTEGERS, "one layer: each letter is the matrix of its transitions"
    )


def chosen_columns_can(question: Question) -> Verdict:
    return question.can(
        stated(PD_SSM) + f"; {proved(f'{GRAZZI}, appendix B.3')}, whose matrices are one-hot in every column",
        SMALL_INTEGERS,
        "one layer: each letter chooses the matrix of its transitions, one 1 per column",
    )


def chosen_matrices_can(question: Question) -> Verdict:
    return question.can(
        stated(SD_SSM) + f"; {proved(f'{GRAZZI}, appendix B.3')}, whose columns have norm 1",
        f"{SMALL_INTEGERS}; the softmax that chooses is rounded to 0 and 1",
        "one layer, a matrix for each letter: the softmax chooses the matrix of its transitions",
    )


def nonlinear_can(question: Question) -> Verdict:
    return question.can(
        proved(f"{GRAZZI}, appendix B.3") + f"; {stated(MERRILL)}, Theorem 5.1",
        "finite precision",
        "one layer: the recurrence applies the transition function itself",
    )


def attention_can(question: Question) -> Verdict | None:
    if not question.any_depth:
        return None
    if question.architecture.precision == "log" and question.language.solvable:
        return question.can(
            stated(LIU),
            f"{LOG}, constant depth, weights that may depend on the length",
            "solvable: a shortcut of constant depth",
        )
    if question.casts and question.language.r_trivial:
        return question.can(stated(LI_COTTERELL), _FIXED, "R-trivial")
    return None


def attention_cannot(question: Question) -> Verdict | None:
    if question.architecture.precision == "log" and not question.language.solvable:
        return question.cannot(
            stated(MERRILL_SABHARWAL),
            f"{LOG}, constant depth; unless TC⁰ = NC¹",
            "transformers of constant depth are in TC⁰, and the language is NC¹-complete",
            question.why_not("solvable"),
        )
    if question.casts and not question.language.r_trivial:
        return question.cannot(
            stated(LI_COTTERELL),
            _FIXED,
            "transformers of fixed precision recognise R-trivial languages only",
            question.why_not("r_trivial"),
        )
    return None


def _undecided_attention(question: Question) -> str:
    if question.rounds:
        return "the theorem is about fixed precision with its own rounding"
    return "how many layers this language takes is not known"


def robust_can(question: Question) -> Verdict | None:
    """Return "can" for robust recognition: the answer must stay right under an error of at most ε in each step."""
    language, layer = question.language, question.architecture.layer
    if layer in LINEAR and language.definite:
        return question.can(derived("7"), _ROBUST, "the last few letters decide, and a contraction keeps them apart")
    if layer in ("slstm", "lstm"):
        beside = f"{METRIC_AUTOMATA}, Theorem 5, for star-free languages" if language.star_free and layer == "slstm" else ""
        return question.can(derived("7", beside), _ROBUST, "one layer: threshold units pull every state back to ±1")
    return None


def robust_cannot(question: Question) -> Verdict | None:
    if question.architecture.layer not in LINEAR or question.language.definite:
        return None
    return question.cannot(
        derived("7", f"{METRIC_AUTOMATA}, Theorem 4, for flip-flop"),
        _ROBUST,
        "a robust linear system contracts: a repeated word merges all states",
        question.why_not("definite"),
    )


RULES: dict[str, Rules] = {
    "diagonal": DIAGONAL,
    "open-diagonal": OPEN_DIAGONAL,
    "complex-diagonal": COMPLEX_DIAGONAL,
    "s4d": S4D,
    "s4d-real": S4D_REAL,
    "s4d-mamba": S4D_MAMBA,
    "mlstm": MLSTM,
    "deltanet": HOUSEHOLDER,
    "gated-deltanet": HOUSEHOLDER,
    "channel-gated-deltanet": CHANNEL_GATED,
    "kda": KDA,
    "rwkv7": RWKV_7,
    # the theorems on linear and on arbitrary non-linear recurrences do not cover TTT-Linear
    "ttt": Rules(
        undecided=lambda question: (
            "the gradient passes through a norm: no matrix is its transition, nor is its update a free function"
        )
    ),
    "dense": Rules((dense_can,)),
    "pd_ssm": Rules((chosen_columns_can,)),
    "sd_ssm": Rules((chosen_matrices_can,)),
    "attention": Rules((attention_can,), (attention_cannot,), _undecided_attention),
    "slstm": Rules((nonlinear_can,)),
    "lstm": Rules((nonlinear_can,)),
}
ROBUST = Rules(
    (robust_can,),
    (robust_cannot,),
    lambda question: "robust recognition of this language by this layer is an open question",
)


def judge(dfa: DFA, language: LanguageClass, architecture: Design, image_limit: int = DEFAULT_LIMIT) -> Verdict:
    """Return the verdict whether an architecture can recognise a language.

    Args:
        dfa: a DFA of the language, which need not be minimal.
        language: the classes of the language, as `classify` returns them.
        architecture: the stack of layers, or a hybrid.
        image_limit: the most image sets of a cascade that the search for a construction may use.
    """
    (verdict,) = verdicts(dfa, language, image_limit, (architecture,))
    return verdict


def verdicts(
    dfa: DFA, language: LanguageClass, image_limit: int = DEFAULT_LIMIT, architectures: Iterable[Design] = STANDARD
) -> tuple[Verdict, ...]:
    """Return the verdicts on architectures, in their order.

    Args:
        dfa: a DFA of the language, which need not be minimal.
        language: the classes of the language, as `classify` returns them.
        image_limit: the most image sets of a cascade that the search for a construction may use.
        architectures: the architectures and hybrids to judge; by default the standard ones.
    """
    judgement = _Judgement(dfa if dfa.states == language.states else minimal(dfa), language, image_limit)
    return tuple(judgement.verdict(architecture) for architecture in architectures)


class _Judgement:
    """The verdicts on one language; what the rules say of an architecture is computed once."""

    def __init__(self, dfa: DFA, language: LanguageClass, image_limit: int) -> None:
        self.dfa, self.language, self.image_limit = dfa, language, image_limit
        self._can: dict[Architecture, Verdict | None] = {}
        self._cannot: dict[Architecture, Verdict | None] = {}

    def verdict(self, design: Design) -> Verdict:
        if isinstance(design, Hybrid):
            return self._of_hybrid(design)
        if (own := self._rules_can(design) or self._rules_cannot(design)) is not None:
            return own
        for inside in narrower(design):
            if (known := self._rules_can(inside)) is not None:
                return self._contained(design, known)
        for outside in wider(design):
            if (known := self._rules_cannot(outside)) is not None:
                return self._containing(design, known)
        question = self._question(design)
        return question.unknown(_rules(design).undecided(question))

    def _of_hybrid(self, design: Hybrid) -> Verdict:
        for inside in stacks_inside(design):
            if (known := self.verdict(inside)).answer == "can":
                return self._contained(design, known)
        for outside in stacks_around(design):
            if (known := self.verdict(outside)).answer == "cannot":
                return self._containing(design, known)
        reason = "its layers of one kind are not known to do it, and no theorem covers the mixture"
        return Verdict(design, "unknown", "none known", "–", reason)

    def _rules_can(self, architecture: Architecture) -> Verdict | None:
        if architecture not in self._can:
            question = self._question(architecture)
            if self.language.states == 1:
                said: Verdict | None = question.can(derived("1"), "any", "the answer is the same for all words")
            else:
                said = next(filter(None, (rule(question) for rule in _rules(architecture).can)), None)
            self._can[architecture] = said
        return self._can[architecture]

    def _rules_cannot(self, architecture: Architecture) -> Verdict | None:
        if architecture not in self._cannot:
            question = self._question(architecture)
            said = next(filter(None, (rule(question) for rule in _rules(architecture).cannot)), None)
            self._cannot[architecture] = said
        return self._cannot[architecture]

    def _question(self, architecture: Architecture) -> Question:
        return Question(self.dfa, self.language, architecture, self.image_limit)

    def _contained(self, design: Design, known: Verdict) -> Verdict:
        """Return "can" for an architecture that contains the one of a verdict."""
        built = None if isinstance(design, Hybrid) else construction_for(self.dfa, design, self.image_limit)
        reason = f"it contains {known.architecture.name}: {known.reason}"
        return replace(known, architecture=design, reason=reason, witness=built)

    def _containing(self, design: Design, known: Verdict) -> Verdict:
        """Return "cannot" for an architecture inside of the one of a verdict."""
        return replace(known, architecture=design, reason=f"{known.architecture.name} contains it: {known.reason}")


def _rules(architecture: Architecture) -> Rules:
    return ROBUST if architecture.precision == "robust" else RULES[architecture.layer]
