"""From a language and an architecture to a verdict: rules for each family of layers; what no rule decides is unknown."""

from __future__ import annotations

from collections.abc import Callable

from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.language_class import LanguageClass
from eigentrack.expressivity.architecture import STANDARD, Architecture
from eigentrack.expressivity.diagonal_rules import complex_diagonal, diagonal, mlstm, open_diagonal, s4d, s4d_mamba, s4d_real
from eigentrack.expressivity.householder_rules import householder
from eigentrack.expressivity.low_rank_rules import channel_gated, kda, rwkv7
from eigentrack.expressivity.other_rules import attention, dense, nonlinear, robust, ttt
from eigentrack.expressivity.question import Question
from eigentrack.expressivity.sources import derived
from eigentrack.expressivity.verdict import Verdict

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
