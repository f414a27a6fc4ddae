"""Boxes that prove robustness: a finite family that every letter followed by any error of at most ε maps into itself.

    f_a(X_i) + [-ε, ε]^D  ⊆  X_{s(i, a)},    label(s(i, a)) = δ(label(i), a),    boxes of different labels have no common point

If the start lies in a box of its label, then on every word of every length, with an error of at most ε in every number of the
state after every letter, the state lies in a box of the right label. In metric automata theory the union of the boxes is an
η-finite space, and the dynamics are ε-robust in it. The cube contains the Euclidean ball of radius ε, so the proof also covers
errors of Euclidean norm at most ε.

A letters  K boxes  D numbers of a state
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigentrack.compiler.interval import Interval, Unbounded

Transitions = Sequence[Sequence[int]]
# (letter, box, label after the letter) for each row → the states after the letter, and the least margin of the right answer
BoxStep = Callable[[NDArray[np.int_], Interval, NDArray[np.int_]], tuple[Interval, NDArray[np.float64]]]

SLACK = 1 / 16  # a box that must grow grows by this part of ε more, or else it would approach its limit for ever
MOST_ROUNDS = 200
AT_ONCE = 512  # the number of boxes that are stepped together


@dataclass(frozen=True, eq=False)
class BoxCertificate:
    """A family of boxes that proves robustness against errors of at most ε."""

    epsilon: float
    boxes: Interval  # [K, D]
    labels: tuple[int, ...]  # the automaton's state of each box
    successors: tuple[tuple[int, ...], ...]  # [i][a] → the box into which letter a leads box i
    margin: float  # the least difference between the right logit and the next, over all boxes and letters

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon={self.epsilon:g} must be at least 0")
        if not self.labels:
            raise ValueError("a certificate needs at least one box")
        if not len(self.boxes.low) == len(self.labels) == len(self.successors):
            raise ValueError("a certificate needs a label and a row of successors for every box")
        if not all(0 <= into < len(self.labels) for row in self.successors for into in row):
            raise ValueError("a certificate's successors must be among its boxes")


@dataclass(frozen=True)
class Undecided:
    """A failed attempt at a proof, which proves nothing against robustness: another family of boxes might succeed."""

    reason: str
    letter: int | None = None  # the letter at which it failed; None if it was at no letter
    label: int | None = None  # the label of the box in which the letter was read

    def __str__(self) -> str:
        place = "" if self.letter is None else f"letter {self.letter} from a box of state {self.label}: "
        return f"not decided at this resolution: {place}{self.reason}"


def find_boxes(
    step: BoxStep, start: Interval, start_label: int, transitions: Transitions, epsilon: float, limit: int
) -> BoxCertificate | Undecided:
    """Search for boxes that prove ε: an image that touches a box of its label widens that box, any other becomes a new box.

    Args:
        step: the step of the network on boxes.
        start: the box [1, D] of the state before the first letter.
        start_label: the automaton's start state.
        transitions: `transitions[label][letter]` is the next state of the automaton.
        epsilon: the largest error in every number of the state after every letter.
        limit: the most boxes.
    """
    family = _Family(start, start_label)
    for _ in range(MOST_ROUNDS):
        waiting, family.waiting = sorted(family.waiting), set()
        if not waiting:
            return _certificate(step, family, transitions, epsilon)
        try:
            for images in _images(step, family.all, family.labels, waiting, transitions):
                for place, (box, letter, label) in enumerate(images.rows):
                    if not images.margins[place] > 0:
                        return Undecided("the right answer does not lead everywhere in it", letter, family.labels[box])
                    if not family.add(images.boxes[place : place + 1], label, epsilon):
                        return Undecided("its image touches a box of another state", letter, family.labels[box])
                    if len(family.labels) > limit:
                        return Undecided(f"more than {limit} boxes")
        except Unbounded as reason:
            return Undecided(str(reason))
    return Undecided(f"the boxes still grow after {MOST_ROUNDS} rounds")


def check_boxes(
    step: BoxStep, start: Interval, start_label: int, transitions: Transitions, certificate: BoxCertificate
) -> Undecided | None:
    """Check a proof without searching: return None if the start [1, D] and the boxes meet every condition.

    The parameters are those of `find_boxes`.
    """
    boxes, labels = certificate.boxes, certificate.labels
    if not bool(start.within(boxes[np.array(labels) == start_label]).any()):
        return Undecided("the start lies in no box of its state")
    for i, label in enumerate(labels):
        if any(labels[j] != label for j in np.flatnonzero(boxes.meets(boxes[i : i + 1]))):
            return Undecided(f"box {i} touches a box of another state", None, label)
    for images in _images(step, boxes, labels, range(len(labels)), transitions):
        for place, (box, letter, label) in enumerate(images.rows):
            into = certificate.successors[box][letter]
            held = images.boxes[place : place + 1].inflated(certificate.epsilon).within(boxes[into : into + 1])[0]
            if not (held and labels[into] == label and images.margins[place] > 0):
                return Undecided(f"box {box} is not led into box {into}, or not to the right answer", letter, labels[box])
    return None


@dataclass(frozen=True, eq=False)
class _Images:
    """The images of some boxes under all letters."""

    rows: list[tuple[int, int, int]]  # box, letter, and the right label of the image
    boxes: Interval  # the images
    margins: NDArray[np.float64]  # the least margin of the right answer in each image


def _images(
    step: BoxStep, boxes: Interval, labels: Sequence[int], chosen: Sequence[int], transitions: Transitions
) -> Iterator[_Images]:
    rows = [(box, letter, target) for box in chosen for letter, target in enumerate(transitions[labels[box]])]
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        numbers, letters, targets = map(np.array, zip(*some, strict=True))
        yield _Images(some, *step(letters, boxes[numbers], targets))


def _certificate(step: BoxStep, family: _Family, transitions: Transitions, epsilon: float) -> BoxCertificate:
    """Return the certificate of a family that no longer grows, with the successors of its boxes."""
    successors: list[list[int]] = [[] for _ in family.labels]
    margin = np.inf
    for images in _images(step, family.all, family.labels, range(len(family.labels)), transitions):
        margin = min(margin, float(images.margins.min()))
        for place, (box, _, label) in enumerate(images.rows):
            successors[box].append(family.holder(images.boxes[place : place + 1].inflated(epsilon), label))
    return BoxCertificate(epsilon, family.all, tuple(family.labels), tuple(map(tuple, successors)), margin)


class _Family:
    """A growing family of boxes; `waiting` are the numbers of those whose images must be computed."""

    def __init__(self, start: Interval, label: int) -> None:
        self._low, self._high = start.low.copy(), start.high.copy()  # these arrays may have more rows than there are boxes
        self.labels = [label]
        self.waiting = {0}

    @property
    def all(self) -> Interval:
        count = len(self.labels)
        return Interval(self._low[:count], self._high[:count])

    def holder(self, image: Interval, label: int) -> int:
        """Return the number of a box of the label that contains the image, or -1 if there is none."""
        return next(iter(np.flatnonzero(self._own(label) & image.within(self.all)).tolist()), -1)

    def add(self, image: Interval, label: int, epsilon: float) -> bool:
        """Widen or add a box to contain the image and its errors; return False if it then touches a box of another label."""
        if self.holder(image.inflated(epsilon), label) >= 0:
            return True
        needed = image.inflated(epsilon * (1 + SLACK))
        met = np.flatnonzero(self._own(label) & needed.meets(self.all))
        number = int(met[0]) if len(met) else len(self.labels)
        if len(met):
            needed = needed.hull(self.all[met[:1]])
        else:
            self._append(label)
        self._low[number], self._high[number] = needed.low[0], needed.high[0]
        self.waiting.add(number)
        return not bool((~self._own(label) & needed.meets(self.all)).any())

    def _own(self, label: int) -> NDArray[np.bool_]:
        return np.array(self.labels) == label

    def _append(self, label: int) -> None:
        if len(self.labels) == len(self._low):
            self._low, self._high = (np.concatenate([ends, np.zeros_like(ends)]) for ends in (self._low, self._high))
        self.labels.append(label)
