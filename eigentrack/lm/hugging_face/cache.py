"""RecurrentCache: the ModelState in the form that `generate` carries; only attention layers make it grow with the tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import Cache

from eigentrack.models import ModelState


class RecurrentCache(Cache):
    """The state of a model between two calls of `forward`."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.state: ModelState | None = None  # None before the first token
        self.tokens = 0  # seen so far, including padding

    def advance(self, state: ModelState, tokens: int) -> None:
        self.state = state
        self.tokens += tokens

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.tokens

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self.state = None if self.state is None else self.state.select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            first = self.state.layers[0]
            device = (first.memory[0] if first.window is None else first.window).device
            self.state = self.state.select(torch.arange(self.batch_size, device=device).repeat_interleave(repeats))

    def reset(self) -> None:
        self.state, self.tokens = None, 0

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove:
            raise ValueError(f"the state cannot forget its last {tokens_to_remove} tokens: run the model on the shorter text")

    @property
    def batch_size(self) -> int:
        return -1 if self.state is None else self.state.layers[0].sequences

    @property
    def is_croppable(self) -> bool:
        return False
