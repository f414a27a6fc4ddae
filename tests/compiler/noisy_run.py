"""A compiled network, run letter by letter with an error in every number of its state."""

from __future__ import annotations

import torch
from torch import Tensor

from eigentrack.compiler import Compiled
from eigentrack.layers import MixerState
from eigentrack.models.sequence_model import ModelState


def errors_in(network: Compiled, letters: Tensor, noise: float, seed: int) -> int:
    """How many answers to letters [rows, length] are wrong if every number is moved by ±noise, at random, after every token."""
    generator, dfa = torch.Generator().manual_seed(seed), network.dfa
    table = torch.tensor(dfa.transitions)

    def moved(part: Tensor) -> Tensor:
        signs = 2.0 * torch.randint(0, 2, part.shape, generator=generator) - 1
        return part + noise * signs

    def noisy(state: ModelState) -> ModelState:
        layers = (
            MixerState(tuple(map(moved, layer.memory)), None if layer.window is None else moved(layer.window))
            for layer in state.layers
        )
        return ModelState(tuple(layers))

    rows = len(letters)
    with torch.no_grad():
        _, state = network.model.step(torch.full((rows,), network.alphabet.begin), None)
        expected, wrong = torch.full((rows,), dfa.start), 0
        for letter in letters.unbind(1):
            logits, state = network.model.step(letter, noisy(state))
            expected = table[expected, letter]
            wrong += int((logits.argmax(-1) != expected).sum())
    return wrong
