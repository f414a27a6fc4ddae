"""The assumptions of the theorem on certificates, one by one; docs/derivations/certificates.md states and proves it.

A network whose closure is right answers rightly by `step`. If it also meets every assumption below, it answers rightly by
every backend, on every device, in every batch and under every split of a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Assumption(Enum):
    """An assumption of the theorem beyond the closure."""

    EXACT_STEPS = "no operation of any step rounds a value"
    KNOWN_LAYERS = "every layer is one whose other forms have a bound, without norms, activations and convolutions inside"
    WHOLE_NUMBERS = "keys, betas, values, queries, gates and matrices are whole numbers"
    NORM = "no transition matrix enlarges a vector"
    SMALL_STATES = "before the first token and after every token all memories are made of -1, 0 and 1"
    SUMS = "sums stay among the whole numbers that are floats"
    OPERANDS = "what is multiplied again has as few bits as tensor cores keep"


@dataclass(frozen=True)
class Fault:
    """An assumption that a network breaks, and how."""

    assumption: Assumption
    text: str
