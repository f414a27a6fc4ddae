"""Proofs of robustness: an error ε in every number of the state, after every token, that a network tolerates at every length.

The proof (boxes.py) encloses the step function in the floats of the network, in any order of evaluation, provided that its exp,
tanh and the like are right to FUNCTION_ERROR units of roundoff. So it also proves the network without extra errors: the boxes
enclose its rounding in addition to ε.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata import DFA
from eigentrack.compiler.boxed_network import BoxedNetwork
from eigentrack.compiler.boxes import BoxCertificate, BoxStep, Transitions, Undecided, check_boxes, find_boxes
from eigentrack.compiler.interval import Interval, Unbounded
from eigentrack.compiler.plan import Alphabet
from eigentrack.models import SequenceModel

CANDIDATES = tuple(float(f"{2 ** (-quarters / 4):.3g}") for quarters in range(1, 41))  # largest first
MOST_BOXES = 20_000


@dataclass(frozen=True)
class Robustness:
    """The largest error ε against which a network was proved to be robust."""

    epsilon: float  # 0 if no ε was proved
    boxes: int  # number of boxes of the proof
    margin: float  # the least difference between the right logit and the next, over all states in all boxes
    obstacle: str = ""  # if no ε was proved, why the proof of the smallest candidate failed

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
    """Return boxes of joint states that prove robustness against errors of at most `epsilon`, or why there are none.

    Args:
        model: the network.
        dfa: the automaton; the network's answer after a word is the number of a state.
        alphabet: the tokens of the letters, one token per letter.
        epsilon: the largest error in every number of the state after every token.
    """
    if alphabet.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    return _boxes_of(_begin(model, dfa, alphabet, epsilon), dfa, epsilon)


def _begin(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> BoxedStart | Undecided:
    return boxed_start(model, [alphabet.begin], range(alphabet.letters), range(dfa.states), dfa.start, epsilon)


def _boxes_of(begun: BoxedStart | Undecided, dfa: DFA, epsilon: float) -> BoxCertificate | Undecided:
    return begun if isinstance(begun, Undecided) else begun.boxes(dfa.start, dfa.transitions, epsilon, MOST_BOXES)


@dataclass(frozen=True)
class BoxedStart:
    """A network that has read the tokens before the first letter."""

    step: BoxStep  # the network's step on boxes
    state: Interval  # the box of its joint state
    margin: float  # the least difference between the right logit and the next, on the empty word

    def boxes(self, label: int, transitions: Transitions, epsilon: float, limit: int) -> BoxCertificate | Undecided:
        """Return boxes that prove this ε, or why there are none; the margin includes the answer to the empty word."""
        found = find_boxes(self.step, self.state, label, transitions, epsilon, limit)
        return found if isinstance(found, Undecided) else dataclasses.replace(found, margin=min(found.margin, self.margin))


def boxed_start(
    model: SequenceModel,
    opening: Iterable[int],
    letters: Sequence[int],
    outputs: Sequence[int],
    start: int,
    epsilon: float,
    classes: int | None = None,
) -> BoxedStart | Undecided:
    """Read the tokens before the first letter; return `Undecided` unless the answer to the empty word is certain.

    Args:
        model: the network.
        opening: the tokens before the first letter; the last one gives the answer to the empty word.
        letters: the token of each letter.
        outputs: the logit that is the right answer in each state.
        start: the start state.
        epsilon: the largest error in every number of the state after every token.
        classes: the number of logits that are answers, which come first; None means all.
    """
    network, tokens, answers = BoxedNetwork(model), np.array(letters), np.array(outputs)

    def step(chosen: NDArray[np.int_], boxes: Interval, targets: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        logits, after = network.step(tokens[chosen], boxes)
        return after, _margins(logits[:, :classes], answers[targets])

    state, margin = network.start, np.inf
    try:
        for token in opening:
            logits, after = network.step(np.array([token]), state)
            state, margin = after.inflated(epsilon), float(_margins(logits[:, :classes], answers[[start]])[0])
    except Unbounded as reason:
        return Undecided(str(reason))
    return BoxedStart(step, state, margin) if margin > 0 else Undecided("the answer to the empty word is not certain")


def _margins(logits: Interval, targets: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the least difference between the right logit and the next, for each row."""
    others = logits.high.copy()
    rows = np.arange(len(targets))
    others[rows, targets] = -np.inf
    return logits.low[rows, targets] - others.max(1)


def largest_proved(prove: Callable[[float], BoxCertificate | Undecided]) -> BoxCertificate | Undecided:
    """Return the proof of the largest candidate ε that can be proved, found by bisection.

    Robustness against an ε implies robustness against every smaller one.
    """
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
    """Return the largest candidate ε in every number of the state that the network provably tolerates.

    Args:
        model: the network.
        dfa: the automaton; the network's answer after a word is the number of a state.
        alphabet: the tokens of the letters, one token per letter.
    """
    found = largest_proved(lambda epsilon: network_boxes(model, dfa, alphabet, epsilon))
    return _summary(found) if isinstance(found, BoxCertificate) else Robustness(0.0, 0, 0.0, str(found))


def confirm_robust(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> Robustness:
    """Prove robustness against one ε again: find boxes, then check them independently of the search."""
    begun = _begin(model, dfa, alphabet, epsilon)
    found = _boxes_of(begun, dfa, epsilon)
    if isinstance(found, Undecided) or isinstance(begun, Undecided):
        return Robustness(0.0, 0, 0.0, str(found))
    fault = check_boxes(begun.step, begun.state, dfa.start, dfa.transitions, found)
    return _summary(found) if fault is None else Robustness(0.0, 0, 0.0, str(fault))


def _summary(found: BoxCertificate) -> Robustness:
    return Robustness(found.epsilon, len(found.labels), float(f"{found.margin:.3g}"))
