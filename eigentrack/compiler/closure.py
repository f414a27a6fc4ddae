"""Closure: the joint states that a network can reach, all of them, and whether each one stands for the right automaton state.

A joint state is everything that the step function carries: the memories and windows of all layers. If the set that the letters
generate from the begin token is finite, every joint state labelled q answers q, and its successor by letter a is labelled
δ(q, a), then the network answers like the automaton on every word of every length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.plan import Alphabet
from eigentrack.models.sequence_model import ModelState

Step = Callable[[Tensor, ModelState | None], tuple[Tensor, ModelState]]  # a token for each row → logits, next state

STEP_BATCH = 1024  # joint states that are stepped at once


class TooManyJointStates(ValueError):
    """The network may well be right, but its joint states are more than the limit."""


@dataclass(frozen=True)
class Closure:
    reachable: int  # joint states
    counterexample: tuple[str, ...] | None  # a shortest word on which network and automaton part; None: there is none
    margin: float  # the smallest distance of the right logit from the next
    small_states: bool  # all memories hold -1, 0 and 1 only


def explore(step: Step, dfa: DFA, alphabet: Alphabet, limit: int) -> Closure:
    """Breadth first, so that a counterexample is as short as can be."""
    if limit < 1:
        raise ValueError(f"--state-limit {limit} must be at least 1")
    logits, states = step(torch.tensor([alphabet.begin]), None)
    margin, small = float(answer_margins(logits, torch.tensor([dfa.start])).min()), _small(states)
    if not margin > 0:  # nan is no answer
        return Closure(1, (), margin, small)
    came_from: list[tuple[int, int]] = [(-1, -1)]  # of every joint state: the one before it, and the letter
    labels = {_keys(states)[0]: dfa.start}
    frontier = [(0, dfa.start)]  # number and label of the joint states whose successors are not known yet
    while frontier:
        fresh: list[tuple[int, int]] = []
        pieces: list[ModelState] = []
        for pairs, logits, after in _successors(step, states, alphabet):
            targets = [dfa.transitions[frontier[row][1]][letter] for row, letter in pairs]
            margins = answer_margins(logits, torch.tensor(targets)).tolist()
            new = []
            for place, ((row, letter), key, target) in enumerate(zip(pairs, _keys(after), targets, strict=True)):
                before, _ = frontier[row]
                margin = min(margin, margins[place])
                if labels.setdefault(key, target) != target or not margins[place] > 0:
                    return Closure(len(labels), _spell(came_from, before, letter, dfa), margins[place], small)
                if len(labels) > len(came_from):
                    fresh.append((len(came_from), target))
                    came_from.append((before, letter))
                    new.append(place)
            if len(labels) > limit:
                raise TooManyJointStates(f"the network has more than {limit} joint states: raise --state-limit to go on")
            if new:
                pieces.append(after.select(torch.tensor(new)))
        frontier = fresh
        if pieces:
            states = ModelState.stack(pieces)
            small = small and _small(states)
    return Closure(len(labels), None, margin, small)


def _successors(
    step: Step, states: ModelState, alphabet: Alphabet
) -> Iterator[tuple[list[tuple[int, int]], Tensor, ModelState]]:
    """Logits and next joint states for all pairs of a row and a letter, many at once."""
    count = states.layers[0].sequences * alphabet.letters
    for first in range(0, count, STEP_BATCH):
        pairs = [divmod(number, alphabet.letters) for number in range(first, min(count, first + STEP_BATCH))]
        after = states.select(torch.tensor([row for row, _ in pairs]))
        logits, after = step(torch.tensor([letter for _, letter in pairs]), after)
        for _ in range(alphabet.tokens_per_letter - 1):
            logits, after = step(torch.full((len(pairs),), alphabet.filler), after)
        yield pairs, logits, after


def answer_margins(logits: Tensor, targets: Tensor) -> Tensor:
    """Return how far the right logit lies above the next, row by row."""
    at = targets[:, None]
    others = logits.double().scatter(1, at, -torch.inf).amax(1)
    return logits.double().gather(1, at)[:, 0] - others


def state_parts(state: ModelState) -> list[Tensor]:
    """Return all that a network carries: memories, then window, layer by layer."""
    return [part for layer in state.layers for part in (*layer.memory, layer.window) if part is not None]


def _keys(states: ModelState) -> list[bytes]:
    """Return all bits of each joint state."""
    parts = [part for part in state_parts(states) if part.numel()]
    rows = torch.cat([part.reshape(len(part), -1).contiguous().view(torch.uint8) for part in parts], 1)
    return [row.tobytes() for row in rows.numpy()]


def _small(states: ModelState) -> bool:
    return all(bool(((part == 0) | (part.abs() == 1)).all()) for layer in states.layers for part in layer.memory)


def _spell(came_from: list[tuple[int, int]], number: int, letter: int, dfa: DFA) -> tuple[str, ...]:
    """The word of a joint state, and one letter more."""
    spelled = [letter]
    while number > 0:
        number, letter = came_from[number]
        spelled.append(letter)
    return tuple(dfa.letters[letter] for letter in reversed(spelled))
