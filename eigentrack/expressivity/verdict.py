"""Question and verdict: can an architecture recognise a language at every length?

The rules turn a question, which holds the language's minimal DFA and its class, into a verdict with its theorem, its precision
model and a witness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eigentrack.automata.dfa import DFA
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.language_class import LanguageClass
from eigentrack.expressivity.architecture import Architecture
from eigentrack.expressivity.construction import Construction, construction_for
from eigentrack.spectrum import EigenRange

# what a witness must be
ANSWERS = {"can": (Construction, type(None)), "cannot": (str,), "unknown": (type(None),)}


@dataclass(frozen=True)
class Verdict:
    """`theorem` says where it is proved, `precision` in which model of arithmetic.

    `witness`: of "can", the network that the compiler builds, or None; of "cannot", what in the language forbids it.
    """

    architecture: Architecture
    answer: str
    theorem: str
    precision: str
    reason: str
    witness: Construction | str | None = None

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise ValueError(f"answer {self.answer!r} must be one of {', '.join(ANSWERS)}")
        if not isinstance(self.witness, ANSWERS[self.answer]) or self.witness == "":
            kinds = {"can": "a construction or none", "cannot": "what in the language forbids it", "unknown": "none"}
            raise ValueError(f"the witness of a verdict {self.answer!r} is {kinds[self.answer]}, not {self.witness!r}")


@dataclass(frozen=True)
class Question:
    """A language and an architecture. `image_limit`: cascades of more image sets are not looked at."""

    dfa: DFA
    language: LanguageClass
    architecture: Architecture
    image_limit: int = DEFAULT_LIMIT

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
    def forgets_and_keeps(self) -> bool:
        """Gates reach 0 and 1."""
        return self.eigenvalues.low <= 0 and self.eigenvalues.high == 1

    @property
    def rounds(self) -> bool:
        """Only statements about IEEE floats count."""
        return self.architecture.precision == "ieee"

    @property
    def casts(self) -> bool:
        """Statements about casts of exact products count."""
        return self.architecture.precision == "finite"

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
        """What keeps the language out of a class."""
        return self.language.witnesses[name]

    @property
    def construction(self) -> Construction | None:
        """What the compiler builds in this architecture."""
        return construction_for(self.dfa, self.architecture, self.image_limit)

    def can(self, theorem: str, precision: str, reason: str) -> Verdict:
        return Verdict(self.architecture, "can", theorem, precision, reason, self.construction)

    def cannot(self, theorem: str, precision: str, reason: str, witness: str) -> Verdict:
        return Verdict(self.architecture, "cannot", theorem, precision, reason, witness)

    def as_known_of(self, verdict: Verdict) -> Verdict:
        """Return a verdict on an architecture that is part of this one, or contains it, as one on this one."""
        return replace(verdict, architecture=self.architecture)

    def unknown(self, reason: str) -> Verdict:
        return Verdict(self.architecture, "unknown", "none known", "–", reason)
