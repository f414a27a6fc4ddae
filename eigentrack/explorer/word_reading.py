"""A compiled network reads a word: the states that it tells, and in each layer A(x_t) and the memory H_t, letter by letter.

A letter may be several tokens; its matrix is their product, the later ones on the left. Position 0 is the begin token.

T positions  k tokens per letter  H heads  n state size  v value size
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.analysis.inspected_network import model_mixers
from eigentrack.automata.dfa import split_word
from eigentrack.compiler import Compiled
from eigentrack.layers import LinearMixer
from eigentrack.models import SequenceModel

MOST_LETTERS = 200
ENTRIES = 2**24  # the most entries of all matrices of a word together


@dataclass(frozen=True)
class LayerReading:
    layer: int  # counted from 1
    mixer: str
    matrices: Float[np.ndarray, "T H n n"]
    memories: Float[np.ndarray, "T H n v"]


@dataclass(frozen=True)
class Reading:
    """The reading of a word; position t is after t letters, and `layers` are the linear recurrences."""

    letters: tuple[str, ...]
    states: tuple[int, ...]  # the automaton's states, as the network tells them
    layers: tuple[LayerReading, ...]


@torch.no_grad()
def read_word(compiled: Compiled, text: str) -> Reading:
    letters = split_word(text, compiled.dfa.letters)
    if len(letters) > MOST_LETTERS:
        raise ValueError(f"the word has {len(letters)} letters: the page follows at most {MOST_LETTERS}")
    states = compiled.run(letters)  # names a letter that is not in the alphabet
    tokens = torch.tensor([compiled.alphabet.tokens(map(compiled.dfa.letters.index, letters))])
    k, mixers = compiled.alphabet.tokens_per_letter, model_mixers(compiled.model)
    sizes = sum(m.memory_shape[0] * m.memory_shape[1] ** 2 for m in mixers if isinstance(m, LinearMixer))
    if sizes * tokens.shape[1] > ENTRIES:
        raise ValueError(f"the matrices of {len(letters)} letters are too large to show: try a shorter word")
    with _watched(compiled.model) as inputs:
        compiled.model(tokens)
    memories = _memories(compiled.model, tokens)
    layers = []
    for number, (name, mixer) in enumerate(zip(compiled.model.config.mixers, mixers, strict=True)):
        if isinstance(mixer, LinearMixer):
            matrices = _by_letter(mixer.transitions(inputs[number])[0].double(), k)
            memory = memories[number][::k]  # a letter's answer is due with its last token
            layers.append(LayerReading(number + 1, name, matrices.numpy(), memory.double().numpy()))
    return Reading(tuple(letters), tuple(states), tuple(layers))


@contextmanager
def _watched(model: SequenceModel) -> Iterator[dict[int, Tensor]]:
    """Yield a dictionary that holds the input of each layer once the model has run."""
    inputs: dict[int, Tensor] = {}
    hooks = [
        mixer.register_forward_pre_hook(lambda _, given, number=number: inputs.update({number: given[0]}))
        for number, mixer in enumerate(model_mixers(model))
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _memories(model: SequenceModel, tokens: Tensor) -> list[Tensor]:
    """Return the memory of every layer after every token."""
    state, seen = None, []
    for token in tokens.unbind(1):
        _, state = model.step(token, state)
        seen.append([layer.memory[0][0] if layer.memory else torch.empty(0) for layer in state.layers])
    return [torch.stack(parts) for parts in zip(*seen, strict=True)]


def _by_letter(matrices: Float[Tensor, "tokens H n n"], k: int) -> Float[Tensor, "T H n n"]:
    """Return the matrix of the begin token, then the product of each letter."""
    letters = [matrices[:1]]
    for start in range(1, len(matrices), k):
        product = matrices[start]
        for later in matrices[start + 1 : start + k]:
            product = later @ product
        letters.append(product[None])
    return torch.cat(letters)
