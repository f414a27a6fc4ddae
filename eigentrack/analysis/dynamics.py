"""Dynamics ⟨X, U, f⟩ of metric automata theory: a map of R^n for each letter, and the automaton that its regions stand for.

Every map is given by its enclosure: of a box of states, a box that holds all their images, for every input within
`input_radius` of the letter's own. From boxes that prove robustness (compiler/boxes.py) the rest is decided:

    η-finite            X is a finite union of compact path-connected sets: the boxes are
    canonical automaton one state for each path component of X: boxes that touch are one component
    contracting         no infinite word keeps two states of the canonical automaton apart
    aperiodic           no letter, repeated, leads round a cycle of several states of it
    strongly ε-robust   ε-robust, and every component of X, and of the inputs, contains a ball of radius ε

Without a proof for ever, boxes tell which states words of at most t letters can lead to, if every step may err by ε:

    R_0(q) = start,    R_{t+1}(q') = R_t(q') ∪ hull of f_a(R_t(q)) + [-ε, ε]^n over all q, a with δ(q, a) = q'

As long as the boxes R_t(q) of different labels have no common point, no error of at most ε can confuse them within t letters.
For one-dimensional linear maps the ends of the boxes are reached: once they touch, some words and errors do.

A letters  K boxes  n numbers of a state
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.components import connected
from eigentrack.compiler.boxes import BoxCertificate, Undecided, check_boxes, find_boxes
from eigentrack.compiler.interval import Interval

LetterMap = Callable[[Interval], Interval]  # boxes [N, n] → boxes [N, n]
Transitions = tuple[tuple[int, ...], ...]

MOST_BOXES = 10_000


@dataclass(frozen=True)
class Dynamics:
    """`transitions[state][letter]` of the automaton; the state at first lies in the box `start`, [1, n]."""

    letters: tuple[str, ...]
    maps: tuple[LetterMap, ...]
    transitions: Transitions
    start: Interval
    start_label: int = 0
    input_radius: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.letters) == len(self.maps) == len(self.transitions[0]):
            raise ValueError(f"{len(self.letters)} letters, {len(self.maps)} maps and {len(self.transitions[0])} transitions")

    def step(self, letters: NDArray[np.int_], boxes: Interval, _: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        """As the search for boxes asks for it. The box alone tells the state, so every answer leads."""
        low, high = np.empty(boxes.shape), np.empty(boxes.shape)
        for letter, letter_map in enumerate(self.maps):
            rows = letters == letter
            if rows.any():
                images = letter_map(boxes[rows])
                low[rows], high[rows] = images.low, images.high
        return Interval(low, high), np.full(len(letters), np.inf)


@dataclass(frozen=True)
class Properties:
    """What a proof decides. A witness, in words, belongs to each property that does not hold."""

    certificate: BoxCertificate
    canonical: Transitions
    periods: dict[str, str]  # of "contracting" and "aperiodic", where they fail
    strongly_robust: bool

    @property
    def contracting(self) -> bool:
        return "contracting" not in self.periods

    @property
    def aperiodic(self) -> bool:
        return "aperiodic" not in self.periods


def prove_robust(dynamics: Dynamics, epsilon: float) -> BoxCertificate | Undecided:
    return find_boxes(dynamics.step, dynamics.start, dynamics.start_label, dynamics.transitions, epsilon, MOST_BOXES)


def recheck(dynamics: Dynamics, certificate: BoxCertificate) -> Undecided | None:
    """None if the certificate proves what it says about these dynamics."""
    return check_boxes(dynamics.step, dynamics.start, dynamics.start_label, dynamics.transitions, certificate)


def decide(dynamics: Dynamics, epsilon: float) -> Properties | Undecided:
    found = prove_robust(dynamics, epsilon)
    if isinstance(found, Undecided):
        return found
    component = components(found.boxes)
    canonical = canonical_automaton(found, component)
    witnesses = {"contracting": kept_apart(canonical, dynamics.letters), "aperiodic": turning(canonical, dynamics.letters)}
    thick = [found.boxes.radius[np.array(component) == number].min(1).max() for number in range(len(canonical))]
    strongly = epsilon > 0 and min(*thick, dynamics.input_radius) >= epsilon
    return Properties(found, canonical, {name: said for name, said in witnesses.items() if said}, bool(strongly))


def components(boxes: Interval) -> list[int]:
    """Return the number of every box's path component: boxes that touch are in one."""
    touching = [np.flatnonzero(boxes.meets(boxes[box : box + 1])) for box in range(len(boxes.low))]
    sources = np.repeat(np.arange(len(touching)), [len(others) for others in touching])
    return connected(len(touching), sources, np.concatenate(touching)).tolist()


def canonical_automaton(certificate: BoxCertificate, component: Sequence[int]) -> Transitions:
    rows: dict[int, tuple[int, ...]] = {}
    for box, successors in enumerate(certificate.successors):
        rows.setdefault(component[box], tuple(component[into] for into in successors))
    return tuple(rows[number] for number in range(len(rows)))


def kept_apart(transitions: Transitions, letters: Sequence[str]) -> str:
    """A word that leads two states round for ever without merging them, in words; empty where there is none."""
    for pair in combinations(range(len(transitions)), 2):
        words = {pair: ""}
        for p, q in (queue := [pair]):  # grows while it is read
            for letter, name in enumerate(letters):
                target = transitions[p][letter], transitions[q][letter]
                if target == pair:
                    return f"{words[p, q] + name} repeated keeps the states {pair[0]} and {pair[1]} apart"
                if target[0] != target[1] and target not in words:
                    words[target] = words[p, q] + name
                    queue.append(target)
    return ""


def turning(transitions: Transitions, letters: Sequence[str]) -> str:
    """A letter that leads round a cycle of several states, in words; empty where there is none."""
    for letter, name in enumerate(letters):
        for state in range(len(transitions)):
            after = state
            for length in range(1, len(transitions) + 1):
                after = transitions[after][letter]
                if after == state:
                    if length > 1:
                        return f"{name} repeated leads state {state} round a cycle of {length}"
                    break
    return ""


def no_linear_robustness(transitions: Transitions, letters: Sequence[str]) -> str:
    """Why no linear recurrence, nor a cascade of them, bears any ε > 0 on this automaton; empty where the theorem is silent.

    A robust η-finite linear recurrence is contracting (Lemma 45), and so is a cascade of contracting ones.
    """
    witness = kept_apart(transitions, letters)
    return f"a robust linear recurrence is contracting, but {witness}" if witness else ""


@dataclass(frozen=True)
class Merging:
    """After `letters` letters the boxes of two labels touch; `gaps` is the least distance of two labels' boxes before each."""

    letters: int
    labels: tuple[int, int]
    gaps: tuple[float, ...]


def letters_until_merged(dynamics: Dynamics, epsilon: float, limit: int) -> Merging | None:
    """Return None if no two labels touch within `limit` letters."""
    reach: dict[int, Interval] = {dynamics.start_label: dynamics.start}
    gaps: list[float] = []
    for letters in range(1, limit + 1):
        grown = dict(reach)
        for state, box in reach.items():
            for letter, letter_map in enumerate(dynamics.maps):
                target, image = dynamics.transitions[state][letter], letter_map(box).inflated(epsilon)
                grown[target] = grown[target].hull(image) if target in grown else image
        reach = grown
        pairs = list(combinations(sorted(reach), 2))
        for p, q in pairs:
            if reach[p].meets(reach[q])[0]:
                return Merging(letters, (p, q), tuple(gaps))
        gaps.append(min((distance(reach[p], reach[q]) for p, q in pairs), default=float("inf")))
    return None


def distance(x: Interval, y: Interval) -> float:
    """Return the distance of two boxes [1, n] in the largest number."""
    return float(np.maximum(0.0, np.maximum(x.low - y.high, y.low - x.high)).max())
