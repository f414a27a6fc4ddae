"""Robustness: how large an error ε in every number of the state, after every token, a network bears at every length. By boxes.

The proof (boxes.py) encloses the step function in the floats of the network, in any order of evaluation, if its exp, tanh and
the like are right to FUNCTION_ERROR units of roundoff. So it proves the network itself, too: rounding is enclosed with ε to
spare.
"""

from __future__ import annotations

import dataclasses
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
        if not isinstance(values, dict) or set(values) != fields or not isinstance(values["epsilon"], (int, float)):
            raise ValueError(f"a robustness certificate must hold exactly {', '.join(sorted(fields))}")
        return cls(**values)


def network_boxes(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> BoxCertificate | Undecided:
    """Boxes of joint states, one or more for every state of the automaton, that prove this ε."""
    if alphabet.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    network, step = _box_step(model)
    try:
        begun, margins = step(np.array([alphabet.begin]), network.start, np.array([dfa.start]))
    except Unbounded as reason:
        return Undecided(str(reason))
    if not margins[0] > 0:
        return Undecided("the answer to the empty word is not certain")
    found = find_boxes(step, begun.inflated(epsilon), dfa.start, dfa.transitions, epsilon, MOST_BOXES)
    if isinstance(found, Undecided):
        return found
    return dataclasses.replace(found, margin=min(found.margin, float(margins[0])))


def _box_step(model: SequenceModel) -> tuple[BoxedNetwork, BoxStep]:
    network = BoxedNetwork(model)

    def step(letters: NDArray[np.int_], boxes: Interval, targets: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        logits, after = network.step(letters, boxes)
        return after, answer_margins(logits, targets)

    return network, step


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
    found = network_boxes(model, dfa, alphabet, epsilon)
    fault = found if isinstance(found, Undecided) else check_boxes(_box_step(model)[1], found, dfa.transitions)
    return _summary(found) if isinstance(found, BoxCertificate) and fault is None else Robustness(0.0, 0, 0.0, str(fault))


def _summary(found: BoxCertificate) -> Robustness:
    return Robustness(found.epsilon, len(found.labels), float(f"{found.margin:.3g}"))
