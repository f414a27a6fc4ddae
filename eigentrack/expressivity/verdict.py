"""Verdict: can an architecture recognise a language at every length? With its theorem, its precision model and a witness."""

from __future__ import annotations

from dataclasses import dataclass

from eigentrack.expressivity.architecture import Architecture
from eigentrack.expressivity.construction import Construction

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
