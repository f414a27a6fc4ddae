"""Robustness: how large an error ε in every number of the state, after every token, a network bears at every length. By boxes.

The proof (boxes.py) encloses the step function in the floats of the network, in any order of evaluation, if its exp, tanh and
the like are right to FUNCTION_ERROR units of roundoff. So it proves the network itself, too: rounding is enclosed with ε to
spare.
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
    return _boxes_of(_begin(model, dfa, alphabet, epsilon), dfa, epsilon)


def _begin(model: SequenceModel, dfa: DFA, alphabet: Alphabet, epsilon: float) -> BoxedStart | Undecided:
    return boxed_start(model, [alphabet.begin], range(alphabet.letters), range(dfa.states), dfa.start, epsilon)


def _boxes_of(begun: BoxedStart | Undecided, dfa: DFA, epsilon: float) -> BoxCertificate | Undecided:
    return begun if isinstance(begun, Undecided) else begun.boxes(dfa.start, dfa.transitions, epsilon, MOST_BOXES)


@dataclass(frozen=True)
class BoxedStart:
    """A network after the tokens before the first letter: its joint state, and by how much the right answer leads."""

    step: BoxStep
    state: Interval
    margin: float

    def boxes(self, label: int, transitions: Transitions, epsilon: float, limit: int) -> BoxCertificate | Undecided:
        """Return boxes that prove this ε, the answer to the empty word included."""
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
    """Read the opening's tokens. `letters` has the token of each letter, `outputs` the answer of each state.

    The answers are the first `classes` logits; that to the empty word, which the opening's last token gives, must be certain.
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
    begun = _begin(model, dfa, alphabet, epsilon)
    found = _boxes_of(begun, dfa, epsilon)
    if isinstance(found, Undecided) or isinstance(begun, Undecided):
        return Robustness(0.0, 0, 0.0, str(found))
    fault = check_boxes(begun.step, begun.state, dfa.start, dfa.transitions, found)
    return _summary(found) if fault is None else Robustness(0.0, 0, 0.0, str(fault))


def _summary(found: BoxCertificate) -> Robustness:
    return Robustness(found.epsilon, len(found.labels), float(f"{found.margin:.3g}"))
