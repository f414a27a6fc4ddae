"""The joint state of a network as one vector: all memories and convolution windows of all layers, in the order of the layers.

B rows  D numbers in all
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.layers import MixerState
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState


def require_fixed_size(model: SequenceModel) -> None:
    if "attention" in model.config.mixers:
        raise ValueError("attention's state grows with the word: there is no joint state of fixed size to look at")


def state_vector(state: ModelState) -> Float[Tensor, "B D"]:
    """In float64; an empty memory's scale of -inf (mLSTM, sLSTM) counts as 0."""
    parts = [part.flatten(1).double() for layer in state.layers for part in _parts(layer)]
    return torch.nan_to_num(torch.cat(parts, 1), neginf=0.0)


def shifted(state: ModelState, by: Float[Tensor, "B D"]) -> ModelState:
    """Every number moved by its entry of `by`, and rounded to its type."""
    sizes = [part[0].numel() for layer in state.layers for part in _parts(layer)]
    moves = iter(by.split(sizes, 1))

    def move(part: Tensor) -> Tensor:
        return (part.double() + next(moves).view(part.shape)).to(part.dtype)

    return ModelState(
        tuple(
            MixerState(tuple(map(move, layer.memory)), None if layer.window is None else move(layer.window))
            for layer in state.layers
        )
    )


def _parts(layer: MixerState) -> list[Tensor]:
    return [*layer.memory, *([] if layer.window is None else [layer.window])]
