"""Robustness: how large an error ε in every number of the state, after every token, a network bears at every length. By boxes.

The proof (boxes.py) encloses the step function in the floats of the network, in any order of evaluation, if its exp, tanh and
the like are right to FUNCTION_ERROR units of roundoff. So it proves the network itself, too: rounding is enclosed with ε to
spare.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata import DFA
from eigentrack.compiler.alphabet import Alphabet
from eigentrack.compiler.boxed_network import BoxedNetwork
from eigentrack.compiler.boxes import BoxCertificate, BoxStep, Undecided, check_boxes, find_boxes
from eigentrack.compiler.interval import Interval, Unbounded
from eigentrack.models import SequenceModel

CANDIDATES = tuple(float(f"{2 ** (-quarters / 4):.3g}") for quarters in range(1, 41))  # largest first
MOST_BOXES = 20_000
EMPTY_WORD = "the answer to the empty word is not certain"


@dataclass(frozen=True)
class Robustness:
    """`epsilon` is 0 where none was proved, and `obstacle` then says what was in the way of the smallest that was tried."""

    epsilon: float
    boxes: int
    margin: float  # the least lead of a right answer, over all states in all boxes
    obstacle: str = ""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Robustness:
        fields = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != fields:
            raise ValueError(f"a robustness certificate must hold exactly {', '.join(sorted(fields))}")
        for name, kind in (("epsilon", float), ("boxes", int), ("margin", float), ("obstacle", str)):
            if type(values[name]) is not kind:  # a bool is an int, but no number of boxes
                raise ValueError(f"{name}={values[name]!r} in a robustness certificate must be of type {kind.__name__}")
        if not 0 <= values["epsilon"] < math.inf:
            raise ValueError(f"epsilon={values['epsilon']} in a robustness certificate must be finite and at least 0")
        return cls(**values)


def network_boxes(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> BoxCertificate | Undecided:
    """Boxes of joint states, one or more for every state of the automaton, that prove this ε."""
    if alphabet.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    begun = _begin(model, dfa, alphabet)
    if isinstance(begun, Undecided):
        return begun
    found = find_boxes(begun.step, begun.state.inflated(epsilon), dfa.start, dfa.transitions, epsilon, MOST_BOXES)
    if isinstance(found, Undecided):
        return found
    return dataclasses.replace(found, margin=min(found.margin, begun.margin))


@dataclass(frozen=True)
class _Begun:
    """After the token that comes before the first letter: the joint state, and by how much the right answer leads."""

    step: BoxStep
    state: Interval
    margin: float


def _begin(model: SequenceModel, dfa: DFA, alphabet: Alphabet) -> _Begun | Undecided:
    network = BoxedNetwork(model)

    def step(letters: NDArray[np.int_], boxes: Interval, targets: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        logits, after = network.step(letters, boxes)
        return after, answer_margins(logits, targets)

    try:
        state, margins = step(np.array([alphabet.begin]), network.start, np.array([dfa.start]))
    except Unbounded as reason:
        return Undecided(str(reason))
    return _Begun(step, state, float(margins[0])) if margins[0] > 0 else Undecided(EMPTY_WORD)


def answer_margins(logits: Interval, targets: NDArray[np.int_]) -> NDArray[np.float64]:
    """How far the right logit leads at least, row by row."""
    others = logits.high.copy()
    rows = np.arange(len(targets))
    others[rows, targets] = -np.inf
    return logits.low[rows, targets] - others.max(1)


def largest_proved(prove: Callable[[float], BoxCertificate | Undecided]) -> BoxCertificate | Undecided:
    """Of the largest candidate that is proved, by bisection: what holds for an ε holds for every smaller one."""
    first, last = 0, len(CANDIDATES)  # every candidate from `last` on is proved
    best: BoxCertificate | Undecided = Undecided("nothing was tried")
    while first < last:
        middle = (first + last) // 2
        found = prove(CANDIDATES[middle])
        if isinstance(found, BoxCertificate):
            last, best = middle, found
        else:
            first, best = middle + 1, best if isinstance(best, BoxCertificate) else found
    return best


def certify_robust(model: SequenceModel, dfa: DFA, alphabet: Alphabet) -> Robustness:
    found = largest_proved(lambda epsilon: network_boxes(model, dfa, alphabet, epsilon))
    return _summary(found) if isinstance(found, BoxCertificate) else Robustness(0.0, 0, 0.0, str(found))


def confirm_robust(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> Robustness:
    """The proof for one ε anew: boxes are found, and then checked by themselves."""
    found, begun = network_boxes(model, dfa, alphabet, epsilon), _begin(model, dfa, alphabet)
    if isinstance(found, Undecided) or isinstance(begun, Undecided):
        return Robustness(0.0, 0, 0.0, str(found))
    fault = check_boxes(begun.step, begun.state.inflated(epsilon), dfa.start, dfa.transitions, found)
    return _summary(found) if fault is None else Robustness(0.0, 0, 0.0, str(fault))


def _summary(found: BoxCertificate) -> Robustness:
    return Robustness(found.epsilon, len(found.labels), float(f"{found.margin:.3g}"))
