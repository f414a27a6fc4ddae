"""The names of weights here and in other projects: each of our parameters is a stack of one or more of their tensors.

One table serves both directions; a tensor that has no place in it raises an error and is never skipped.

H heads  n Householder factors per token  D width of a head
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from eigentrack.layers import Mixer
from eigentrack.models import SequenceModel


@dataclass(frozen=True)
class Layout:
    """The translation between the layouts of a tensor of ours and of theirs; the mixer gives the sizes."""

    to_ours: Callable[[Tensor, Mixer], Tensor]
    to_theirs: Callable[[Tensor, Mixer], Tensor]

    def then(self, other: Layout) -> Layout:
        return Layout(
            lambda tensor, mixer: other.to_ours(self.to_ours(tensor, mixer), mixer),
            lambda tensor, mixer: self.to_theirs(other.to_theirs(tensor, mixer), mixer),
        )


AS_IS = Layout(lambda tensor, mixer: tensor, lambda tensor, mixer: tensor)
# theirs is [channels, 1, width], ours [channels, width]
FILTERS = Layout(lambda tensor, mixer: tensor.squeeze(1), lambda tensor, mixer: tensor.unsqueeze(1))


@dataclass(frozen=True)
class Piece:
    """One of their tensors, and its layout."""

    name: str  # within the layer, or in the model
    layout: Layout = AS_IS


@dataclass(frozen=True)
class Stack:
    """Several of their tensors, which are stacked along the rows in one of ours."""

    pieces: tuple[Piece, ...]
    rows: Callable[[Mixer], list[int]]  # how many rows each piece has in our layout


Names = dict[str, str | Piece | Stack]  # ours → theirs


@dataclass(frozen=True)
class WeightNames:
    """The names of all weights of a family."""

    model: Names  # the names of the weights outside the layers
    their_block: str  # the prefix of their layer {}
    blocks: Mapping[str, Names]  # for each of our mixers, the names of the weights within a layer


def in_our_names(names: WeightNames, theirs: Mapping[str, Tensor], model: SequenceModel) -> dict[str, Tensor]:
    """Return their weights (or gradients) under our names and in our layout; raise if one is missing or left over.

    Args:
        names: the table of names of the family.
        theirs: their tensors by name.
        model: our model, which gives the names of the parameters, the sizes and whether the head is tied.
    """
    left, ours = dict(theirs), {}
    for name in dict(model.named_parameters()):
        stack, mixer, prefix = _find(names, name, model)
        parts = []
        for piece in stack.pieces:
            if prefix + piece.name not in theirs:
                raise ValueError(f"the checkpoint lacks {prefix + piece.name!r}, which our {name!r} is made of")
            left.pop(prefix + piece.name, None)
            parts.append(_laid_out(prefix + piece.name, theirs[prefix + piece.name], piece.layout, mixer))
        ours[name] = torch.cat(parts) if len(parts) > 1 else parts[0]
    if model.config.tie_embeddings:
        left.pop(_find(names, "head.weight", model)[0].pieces[0].name, None)
    if left:
        raise ValueError(f"the checkpoint holds {min(left)!r} (and {len(left) - 1} more), which has no place in our model")
    return ours


def _laid_out(name: str, tensor: Tensor, layout: Layout, mixer: Mixer) -> Tensor:
    try:
        return layout.to_ours(tensor, mixer)
    except RuntimeError:  # rows that cannot be split into so many heads or factors
        raise ValueError(f"{name!r} has shape {list(tensor.shape)}, which does not fit the configuration") from None


def in_their_names(names: WeightNames, model: SequenceModel) -> dict[str, Tensor]:
    """Return the weights of our `model` under their names and in their layout; `names` is the family's table of names."""
    theirs = {}
    for name, tensor in model.named_parameters():
        stack, mixer, prefix = _find(names, name, model)
        parts = tensor.detach().split(stack.rows(mixer)) if len(stack.pieces) > 1 else [tensor.detach()]
        for piece, part in zip(stack.pieces, parts, strict=True):
            theirs[prefix + piece.name] = piece.layout.to_theirs(part, mixer).contiguous()
    return theirs


def _find(names: WeightNames, ours: str, model: SequenceModel) -> tuple[Stack, Mixer, str]:
    """Return the pieces of one of our parameters, the mixer of its block (or of the first), and the prefix of their names."""
    table, key, block, prefix = names.model, ours, 0, ""
    if ours.startswith("blocks."):
        _, number, key = ours.split(".", 2)
        block, prefix = int(number), names.their_block.format(number)
        table = names.blocks[model.config.mixers[block]]
    if key not in table:
        raise ValueError(f"our {ours!r} has no place in such a checkpoint")
    found = table[key]
    found = Piece(found) if isinstance(found, str) else found
    stack = Stack((found,), lambda mixer: []) if isinstance(found, Piece) else found
    mixer = model.get_submodule(f"blocks.{block}.mixer")
    assert isinstance(mixer, Mixer)
    return stack, mixer, prefix
