"""Dynamics ⟨X, U, f⟩ of metric automata theory: a map of R^n for each letter, and the automaton that its regions stand for.

Every map is given by its enclosure: it takes a box of states to a box that holds the images of all of them, for every input
within `input_radius` of the letter's own. Boxes that prove robustness (compiler/boxes.py) decide these properties:

    η-finite            X is a finite union of compact path-connected sets; the union of the boxes is one
    canonical automaton one state for each path component of X: boxes that touch are one component
    contracting         no infinite word keeps two states of the canonical automaton apart
    aperiodic           no letter, repeated, leads round a cycle of several states of the canonical automaton
    strongly ε-robust   ε-robust, and every component of X, and of the inputs, contains a ball of radius ε

Where nothing is proved for all lengths, boxes bound the states that words of at most t letters reach if each step errs by ε:

    R_0(q) = start,    R_{t+1}(q') = R_t(q') ∪ hull of f_a(R_t(q)) + [-ε, ε]^n over all q, a with δ(q, a) = q'

As long as the boxes R_t(q) of different labels have no common point, no error of at most ε can confuse them within t letters.
For one-dimensional linear maps the ends of the boxes are reached: once two boxes touch, some words and errors meet there.

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
    """A map of R^n for each letter, and the automaton that the maps are to compute."""

    letters: tuple[str, ...]  # the names of the letters
    maps: tuple[LetterMap, ...]  # one enclosure per letter
    transitions: Transitions  # the automaton's next state, [state][letter]
    start: Interval  # the box [1, n] that holds the state before the first letter
    start_label: int = 0  # the state of the automaton before the first letter
    input_radius: float = 0.0  # how far an input may lie from the letter's own

    def __post_init__(self) -> None:
        if not len(self.letters) == len(self.maps) == len(self.transitions[0]):
            raise ValueError(f"{len(self.letters)} letters, {len(self.maps)} maps and {len(self.transitions[0])} transitions")

    def step(self, letters: NDArray[np.int_], boxes: Interval, _: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        """Return the image of each box under its letter, and an infinite margin: there is no read-out that could err."""
        low, high = np.empty(boxes.shape), np.empty(boxes.shape)
        for letter, letter_map in enumerate(self.maps):
            rows = letters == letter
            if rows.any():
                images = letter_map(boxes[rows])
                low[rows], high[rows] = images.low, images.high
        return Interval(low, high), np.full(len(letters), np.inf)


@dataclass(frozen=True)
class Properties:
    """The properties of dynamics that boxes have proved robust, with a witness for each property that does not hold."""

    certificate: BoxCertificate
    canonical: Transitions  # the canonical automaton's next state, [state][letter]
    periods: dict[str, str]  # a witness, in words, for "contracting" and for "aperiodic" where that property fails
    strongly_robust: bool

    @property
    def contracting(self) -> bool:
        return "contracting" not in self.periods

    @property
    def aperiodic(self) -> bool:
        return "aperiodic" not in self.periods


def prove_robust(dynamics: Dynamics, epsilon: float) -> BoxCertificate | Undecided:
    """Find boxes that prove the `dynamics` robust to errors of at most `epsilon` after every letter, or why there are none."""
    return find_boxes(dynamics.step, dynamics.start, dynamics.start_label, dynamics.transitions, epsilon, MOST_BOXES)


def recheck(dynamics: Dynamics, certificate: BoxCertificate) -> Undecided | None:
    """Return None if the `certificate` proves the `dynamics` robust, otherwise say where the proof fails."""
    return check_boxes(dynamics.step, dynamics.start, dynamics.start_label, dynamics.transitions, certificate)


def decide(dynamics: Dynamics, epsilon: float) -> Properties | Undecided:
    """Return the properties of the `dynamics`, from boxes that prove them `epsilon`-robust; Undecided if none were found."""
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
    """Return the number of every box's path component; boxes that touch are in the same one."""
    touching = [np.flatnonzero(boxes.meets(boxes[box : box + 1])) for box in range(len(boxes.low))]
    sources = np.repeat(np.arange(len(touching)), [len(others) for others in touching])
    return connected(len(touching), sources, np.concatenate(touching)).tolist()


def canonical_automaton(certificate: BoxCertificate, component: Sequence[int]) -> Transitions:
    rows: dict[int, tuple[int, ...]] = {}
    for box, successors in enumerate(certificate.successors):
        rows.setdefault(component[box], tuple(component[into] for into in successors))
    return tuple(rows[number] for number in range(len(rows)))


def kept_apart(transitions: Transitions, letters: Sequence[str]) -> str:
    """Describe a word that, repeated, never merges some two states; return "" if there is no such word."""
    for pair in combinations(range(len(transitions)), 2):
        words = {pair: ""}
        for p, q in (queue := [pair]):  # the loop appends to the queue
            for letter, name in enumerate(letters):
                target = transitions[p][letter], transitions[q][letter]
                if target == pair:
                    return f"{words[p, q] + name} repeated keeps the states {pair[0]} and {pair[1]} apart"
                if target[0] != target[1] and target not in words:
                    words[target] = words[p, q] + name
                    queue.append(target)
    return ""


def turning(transitions: Transitions, letters: Sequence[str]) -> str:
    """Describe a letter that, repeated, leads round a cycle of several states; return "" if there is no such letter."""
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
    """Say why no linear recurrence or cascade of them is ε-robust on this automaton for any ε > 0; return "" if one may be.

    A robust η-finite linear recurrence is contracting (Lemma 45), and so is a cascade of contracting ones.
    """
    witness = kept_apart(transitions, letters)
    return f"a robust linear recurrence is contracting, but {witness}" if witness else ""


@dataclass(frozen=True)
class Merging:
    """The first word length at which the boxes of two labels touch."""

    letters: int
    labels: tuple[int, int]  # the two labels whose boxes touch
    gaps: tuple[float, ...]  # at each shorter length from 1 on, the least distance between the boxes of two labels


def letters_until_merged(dynamics: Dynamics, epsilon: float, limit: int) -> Merging | None:
    """Return the first word length at which errors of at most `epsilon` per letter can confuse two labels, or None.

    Args:
        dynamics: the maps, the automaton and the start.
        epsilon: the largest error in every number of the state after every letter.
        limit: the longest words that are looked at; None is returned if no two labels touch within them.
    """
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
    """Return the distance between two boxes [1, n] in the maximum norm."""
    return float(np.maximum(0.0, np.maximum(x.low - y.high, y.low - x.high)).max())
