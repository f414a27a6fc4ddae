"""The closure of a network: all joint states that it can reach, and whether each stands for the right state of an automaton.

A joint state is everything that one step passes to the next: the memories and windows of all layers. If the set that the
letters generate from the begin token is finite, every joint state labelled q answers q, and its successor by letter a is
labelled δ(q, a), then the network answers like the automaton on every word of every length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.joint_states import JointStates
from eigentrack.compiler.plan import Alphabet
from eigentrack.models.sequence_model import ModelState

Step = Callable[[Tensor, ModelState | None], tuple[Tensor, ModelState]]  # (token per row, state) → (logits, next state)

STEP_BATCH = 1024  # the number of joint states that are stepped at once


class TooManyJointStates(ValueError):
    """The error that a network has more joint states than the limit; it may still answer like the automaton."""


@dataclass(frozen=True)
class Closure:
    """The result of exploring the joint states of a network."""

    reachable: int  # number of joint states
    counterexample: tuple[str, ...] | None  # a shortest word on which network and automaton disagree; None if there is none
    margin: float  # the smallest difference between the right logit and the next
    joint_states: JointStates | None = None  # all of them; None if there is a counterexample


def explore(step: Step, dfa: DFA, alphabet: Alphabet, limit: int) -> Closure:
    """Explore the joint states breadth-first, so that a counterexample is as short as possible.

    Args:
        step: the step function of the network.
        dfa: the automaton.
        alphabet: the tokens of the letters.
        limit: the most joint states; `TooManyJointStates` is raised if there are more.
    """
    if limit < 1:
        raise ValueError(f"--state-limit {limit} must be at least 1")
    logits, states = step(torch.tensor([alphabet.begin]), None)
    margin = float(answer_margins(logits, torch.tensor([dfa.start])).min())
    if not margin > 0:  # this also refuses nan
        return Closure(1, (), margin)
    came_from: list[tuple[int, int]] = [(-1, -1)]  # for each joint state: the joint state before it, and the letter
    labels = {_keys(states)[0]: dfa.start}
    numbers = dict.fromkeys(labels, 0)
    successors: list[tuple[int, ...]] = []
    explored = [states]
    frontier = [(0, dfa.start)]  # number and label of the joint states whose successors are not known yet
    while frontier:
        fresh: list[tuple[int, int]] = []
        pieces: list[ModelState] = []
        reached: list[int] = []
        for pairs, logits, after in _successors(step, states, alphabet):
            targets = [dfa.transitions[frontier[row][1]][letter] for row, letter in pairs]
            margins = answer_margins(logits, torch.tensor(targets)).tolist()
            new = []
            for place, ((row, letter), key, target) in enumerate(zip(pairs, _keys(after), targets, strict=True)):
                before, _ = frontier[row]
                margin = min(margin, margins[place])
                if labels.setdefault(key, target) != target or not margins[place] > 0:
                    return Closure(len(labels), _spell(came_from, before, letter, dfa), margins[place])
                reached.append(numbers.setdefault(key, len(numbers)))
                if len(labels) > len(came_from):
                    fresh.append((len(came_from), target))
                    came_from.append((before, letter))
                    new.append(place)
            if len(labels) > limit:
                raise TooManyJointStates(f"the network has more than {limit} joint states: raise --state-limit to go on")
            if new:
                pieces.append(after.select(torch.tensor(new)))
        successors += [tuple(reached[i : i + alphabet.letters]) for i in range(0, len(reached), alphabet.letters)]
        frontier = fresh
        if pieces:
            states = ModelState.stack(pieces)
            explored.append(states)
    listed = JointStates(tuple(labels.values()), tuple(successors), tuple(explored))
    return Closure(len(labels), None, margin, listed)


def _successors(
    step: Step, states: ModelState, alphabet: Alphabet
) -> Iterator[tuple[list[tuple[int, int]], Tensor, ModelState]]:
    """Yield the pairs of a row and a letter, their logits and their next joint states, many at once."""
    count = states.layers[0].sequences * alphabet.letters
    for first in range(0, count, STEP_BATCH):
        pairs = [divmod(number, alphabet.letters) for number in range(first, min(count, first + STEP_BATCH))]
        after = states.select(torch.tensor([row for row, _ in pairs]))
        logits, after = step(torch.tensor([letter for _, letter in pairs]), after)
        for _ in range(alphabet.tokens_per_letter - 1):
            logits, after = step(torch.full((len(pairs),), alphabet.filler), after)
        yield pairs, logits, after


def answer_margins(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the difference between the right logit and the largest other logit, for each row."""
    at = targets[:, None]
    others = logits.double().scatter(1, at, -torch.inf).amax(1)
    return logits.double().gather(1, at)[:, 0] - others


def state_parts(state: ModelState) -> list[Tensor]:
    """Return the tensors of a joint state: layer by layer the memories, then the window."""
    return [part for layer in state.layers for part in (*layer.memory, layer.window) if part is not None]


def _keys(states: ModelState) -> list[bytes]:
    """Return the bytes of each joint state, which identify it."""
    parts = [part for part in state_parts(states) if part.numel()]
    rows = torch.cat([part.reshape(len(part), -1).contiguous().view(torch.uint8) for part in parts], 1)
    return [row.tobytes() for row in rows.numpy()]


def _spell(came_from: list[tuple[int, int]], number: int, letter: int, dfa: DFA) -> tuple[str, ...]:
    """Return the word that leads to joint state `number`, followed by `letter`."""
    spelled = [letter]
    while number > 0:
        number, letter = came_from[number]
        spelled.append(letter)
    return tuple(dfa.letters[letter] for letter in reversed(spelled))
