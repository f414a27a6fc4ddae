"""InspectedNetwork: a network under inspection, and the machine that it should be.

A word is read as the opening tokens, then the tokens of each letter; the last token of a letter gives the answer.

The joint state of a network is everything that its layers carry, memories and convolution windows, in the order of the layers.

B sequences  N letters  k tokens per letter  V answers  D numbers of a joint state
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.analysis.moore_machine import MooreMachine
from eigentrack.compiler import Compiled
from eigentrack.compiler.closure import state_parts
from eigentrack.layers import Mixer, MixerState
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import Block, ModelState
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.automaton_walk import AutomatonWalk

LEAVES = 0.1  # the share of a test word's letters that may lead to a state from which no word is accepted


@dataclass(frozen=True)
class InspectedNetwork:
    """A network under inspection, and the machine that it should be."""

    model: SequenceModel
    machine: MooreMachine  # what the network should compute
    opening: tuple[int, ...]  # the tokens before the first letter
    spelling: tuple[tuple[int, ...], ...]  # the k tokens of each letter
    walk: AutomatonWalk  # draws the random words that the network was made for

    @classmethod
    def from_task(cls, model: SequenceModel, task: TrackingTask, letters: tuple[str, ...] | None = None) -> InspectedNetwork:
        """Return a trained model with the machine of its task; `letters` are their names, None: the task's numbers."""
        if max(task.vocab_size, task.classes) > model.config.vocab_size:
            raise ValueError(
                f"the task has {task.vocab_size} tokens and {task.classes} answers, the model {model.config.vocab_size} "
                "tokens: it was trained on another task"
            )
        fillers = (task.filler,) * (task.tokens_per_letter - 1)
        spelling = tuple((letter, *fillers) for letter in range(task.letters))
        walk = AutomatonWalk(task.transitions, task.shares, task.live, task.escape, task.products)
        return cls(model.eval(), task_machine(task, letters), (task.begin,) if task.begin_token else (), spelling, walk)

    @classmethod
    def from_compiled(cls, compiled: Compiled) -> InspectedNetwork:
        """Return a compiled network with its machine, whose answers are the states of the automaton."""
        dfa, alphabet = compiled.dfa, compiled.alphabet
        machine = MooreMachine(dfa.letters, dfa.transitions, tuple(range(dfa.states)), dfa.start)
        spelling = tuple(tuple(alphabet.spelled(letter)) for letter in range(alphabet.letters))
        walk = AutomatonWalk(dfa.transitions, None, dfa.live_states(), LEAVES, None)
        return cls(compiled.model, machine, (alphabet.begin,), spelling, walk)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def tokens_per_letter(self) -> int:
        return len(self.spelling[0])

    def begin(self, rows: int) -> tuple[Float[Tensor, "B V"] | None, ModelState]:
        """Return the answers to the empty word (None if there are no opening tokens) and the state after the opening."""
        state = self.model.initial_state(rows)
        answers = None
        for token in self.opening:
            logits, state = self.model.step(torch.full((rows,), token, device=self.device), state)
            answers = logits[:, : self.machine.classes]
        return answers, state

    def read(self, letters: Int[Tensor, "B N"], state: ModelState) -> tuple[Float[Tensor, "B N V"], ModelState]:
        """Read many letters at once, as in training; return the answer to each and the state."""
        k = self.tokens_per_letter
        logits, state = self.model(self._spelling[letters].flatten(1), state)
        return logits[:, k - 1 :: k, : self.machine.classes], state

    def step(self, letters: Int[Tensor, " B"], state: ModelState) -> tuple[Float[Tensor, "B V"], ModelState]:
        """Read one letter per row with the model's step function, whose rounding does not depend on later letters."""
        for token in self._spelling[letters].unbind(1):
            logits, state = self.model.step(token, state)
        return logits[:, : self.machine.classes], state

    @cached_property
    def _spelling(self) -> Int[Tensor, "A k"]:
        return torch.tensor(self.spelling, device=self.device)


def model_mixers(model: SequenceModel) -> tuple[Mixer, ...]:
    """Return the mixer of every layer."""
    return tuple(cast(Block, block).mixer for block in model.blocks)


def task_machine(task: TrackingTask, letters: tuple[str, ...] | None = None) -> MooreMachine:
    names = tuple(map(str, range(task.letters))) if letters is None else letters
    return MooreMachine(names, task.transitions, task.outputs, task.start)


def require_fixed_size(model: SequenceModel) -> None:
    if "attention" in model.config.mixers:
        raise ValueError("attention's state grows with the word: there is no joint state of fixed size to look at")


def state_vector(state: ModelState) -> Float[Tensor, "B D"]:
    """Return the joint state as one vector, in float64; an empty memory's scale of -inf (mLSTM, sLSTM) counts as 0."""
    return torch.nan_to_num(torch.cat([part.flatten(1).double() for part in state_parts(state)], 1), neginf=0.0)


def shifted(state: ModelState, by: Float[Tensor, "B D"]) -> ModelState:
    """Return the state with `by` added to its numbers, each rounded to its type."""
    moves = iter(by.split([part[0].numel() for part in state_parts(state)], 1))

    def move(part: Tensor) -> Tensor:
        return (part.double() + next(moves).view(part.shape)).to(part.dtype)

    return ModelState(
        tuple(
            MixerState(tuple(map(move, layer.memory)), None if layer.window is None else move(layer.window))
            for layer in state.layers
        )
    )
