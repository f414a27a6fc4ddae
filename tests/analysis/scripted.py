"""Networks whose faults are known, because they are scripted: a joint state of one number, and a rule that reads it."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigentrack.analysis import InspectedNetwork, MooreMachine
from eigentrack.layers import MixerState
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.tasks.automaton_walk import AutomatonWalk


@dataclass(frozen=True)
class Scripted(InspectedNetwork):
    """x ← move(x, letter), answer read(x)."""

    move: Callable[[Tensor, Tensor], Tensor] = lambda x, letter: x
    read_answer: Callable[[Tensor], Tensor] = lambda x: x.long()

    def begin(self, rows: int) -> tuple[Any, ModelState]:
        return None, ModelState((MixerState((torch.zeros(rows, 1, dtype=torch.float64),)),))

    def step(self, letters: Tensor, state: ModelState) -> tuple[Tensor, ModelState]:
        x = self.move(state.layers[0].memory[0][:, 0], letters)
        answers = torch.nn.functional.one_hot(self.read_answer(x), self.machine.classes).double()
        return answers, ModelState((MixerState((x[:, None],)),))

    def read(self, letters: Tensor, state: ModelState) -> tuple[Tensor, ModelState]:
        answers = []
        for letter in letters.unbind(1):
            found, state = self.step(letter, state)
            answers.append(found)
        return torch.stack(answers, 1), state


def scripted(
    transitions: tuple[tuple[int, ...], ...],
    outputs: tuple[int, ...],
    move: Callable[[Tensor, Tensor], Tensor],
    read_answer: Callable[[Tensor], Tensor],
    shares: tuple[float, ...] | None = None,
) -> Scripted:
    letters = tuple(string.ascii_lowercase[: len(transitions[0])])
    machine = MooreMachine(letters, transitions, outputs)
    model = SequenceModel(ModelConfig(vocab_size=len(letters), d_model=4, layers=1))  # looked at, never run
    spelling = tuple((letter,) for letter in range(len(letters)))
    walk = AutomatonWalk(transitions, shares, None, 1.0, None)
    return Scripted(model, machine, (), spelling, walk, move, read_answer)


def exact_parity() -> Scripted:
    """b flips between 0 and 1."""
    return scripted(((0, 1), (1, 0)), (0, 1), lambda x, letter: (x - letter).abs(), lambda x: (x > 0.5).long())
