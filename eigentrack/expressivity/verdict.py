"""Questions whether an architecture can recognise a language at every length, and the verdicts on them.

The rules turn a question, which holds the language's minimal DFA and its class, into a verdict with its theorem, its model of
arithmetic and a witness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from eigentrack.automata.dfa import DFA
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.language_class import LanguageClass
from eigentrack.expressivity.architecture import Architecture
from eigentrack.expressivity.construction import Construction, construction_for
from eigentrack.expressivity.hybrid import Design
from eigentrack.spectrum import EigenRange

# answer → the types that its witness may have
ANSWERS = {"can": (Construction, type(None)), "cannot": (str,), "unknown": (type(None),)}


@dataclass(frozen=True)
class Verdict:
    """The answer whether an architecture can recognise a language, with its source and a witness."""

    architecture: Design
    answer: str  # "can", "cannot" or "unknown"
    theorem: str  # where it is proved
    precision: str  # the model of arithmetic in which it holds
    reason: str  # the argument in one sentence
    # for "can" the network that the compiler builds, or None; for "cannot" the part of the language that rules it out
    witness: Construction | str | None = None

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise ValueError(f"answer {self.answer!r} must be one of {', '.join(ANSWERS)}")
        if not isinstance(self.witness, ANSWERS[self.answer]) or self.witness == "":
            kinds = {"can": "a construction or none", "cannot": "what in the language forbids it", "unknown": "none"}
            raise ValueError(f"the witness of a verdict {self.answer!r} is {kinds[self.answer]}, not {self.witness!r}")


@dataclass(frozen=True)
class Question:
    """A language and an architecture, about which the rules decide."""

    dfa: DFA  # the minimal DFA of the language
    language: LanguageClass  # the classes of the language
    architecture: Architecture
    image_limit: int = DEFAULT_LIMIT  # cascades of more image sets are not computed

    def __post_init__(self) -> None:
        if self.dfa.states != self.language.states:
            raise ValueError(f"the DFA has {self.dfa.states} states, the minimal one of this class {self.language.states}")

    @property
    def eigenvalues(self) -> EigenRange:
        if self.architecture.eigenvalues is None:
            raise ValueError(f"layer {self.architecture.layer!r} has no eigenvalue range")
        return self.architecture.eigenvalues

    @property
    def flips(self) -> bool:
        return self.eigenvalues.low == -1

    @property
    def forgets(self) -> bool:
        """Whether the range of the eigenvalues contains 0."""
        return self.eigenvalues.low <= 0 <= self.eigenvalues.high

    @property
    def forgets_and_keeps(self) -> bool:
        """Whether the range of the eigenvalues contains 0 and ends at 1."""
        return self.forgets and self.eigenvalues.high == 1

    @property
    def rounds(self) -> bool:
        """Whether the question is about IEEE floats, so that only statements about these count."""
        return self.architecture.precision == "ieee"

    @property
    def casts(self) -> bool:
        """Whether the question is about finite precision, so that statements about casts of exact products count."""
        return self.architecture.precision == "finite"

    @property
    def constrained(self) -> bool:
        """Whether the question is about geometrically constrained systems."""
        return self.architecture.precision == "constrained"

    @property
    def any_depth(self) -> bool:
        return self.architecture.layers is None

    def has_layers(self, number: int) -> bool:
        return self.architecture.layers is None or self.architecture.layers >= number

    def has_factors(self, number: int) -> bool:
        return self.architecture.householders is None or self.architecture.householders >= number

    def about(self, **changes: Any) -> Question:
        """Return the same question about an architecture with these changes."""
        return replace(self, architecture=replace(self.architecture, **changes))

    def why_not(self, name: str) -> str:
        """Return the reason why the language is not in a class."""
        return self.language.witnesses[name]

    @property
    def construction(self) -> Construction | None:
        """The network that the compiler builds in this architecture, or None if it builds none."""
        return construction_for(self.dfa, self.architecture, self.image_limit)

    def can(self, theorem: str, precision: str, reason: str) -> Verdict:
        return Verdict(self.architecture, "can", theorem, precision, reason, self.construction)

    def cannot(self, theorem: str, precision: str, reason: str, witness: str) -> Verdict:
        return Verdict(self.architecture, "cannot", theorem, precision, reason, witness)

    def unknown(self, reason: str) -> Verdict:
        return Verdict(self.architecture, "unknown", "none known", "–", reason)


Rule = Callable[[Question], Verdict | None]  # None: the rule does not apply


@dataclass(frozen=True)
class Rules:
    """The rules of one kind of layer.

    A rule that says "can" must also say so for more layers, more factors and a wider range; a rule that says "cannot", for
    fewer layers, fewer factors and a narrower range.
    """

    can: tuple[Rule, ...] = ()  # in the order in which they are asked
    cannot: tuple[Rule, ...] = ()
    undecided: Callable[[Question], str] = lambda question: "no theorem covers this architecture"  # why it is not known
