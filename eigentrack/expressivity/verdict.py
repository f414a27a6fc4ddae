"""Verdict: can an architecture recognise a language at every length? With its theorem, its precision model and a witness."""

from __future__ import annotations

from dataclasses import dataclass

from eigentrack.expressivity.architecture import Architecture

ANSWERS = ("can", "cannot", "unknown")

# what the compiler can build
CONSTRUCTIONS = frozenset(
    {"permutation", "rotation", "two-layer-cyclic", "cascade-gated", "cascade-products", "diagonal-cascade", "dense"}
)


@dataclass(frozen=True)
class Verdict:
    """`theorem` says where it is proved, `precision` in which model of arithmetic.

    `witness`: of "can", the construction that the compiler builds, or None; of "cannot", what in the language forbids it.
    """

    architecture: Architecture
    answer: str
    theorem: str
    precision: str
    reason: str
    witness: str | None = None

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise ValueError(f"answer {self.answer!r} must be one of {', '.join(ANSWERS)}")
        if self.answer == "can" and self.witness is not None and self.witness not in CONSTRUCTIONS:
            raise ValueError(f"witness {self.witness!r} is no construction; there are {', '.join(sorted(CONSTRUCTIONS))}")
        if (self.answer == "cannot") and not self.witness:
            raise ValueError("a verdict 'cannot' needs a witness: what in the language forbids it")
        if self.answer == "unknown" and self.witness is not None:
            raise ValueError(f"a verdict 'unknown' has no witness, got {self.witness!r}")
