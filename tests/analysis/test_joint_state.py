"""The joint state of every kind of layer is a vector, and a vector moves it."""

from __future__ import annotations

import pytest
import torch

from eigentrack.analysis.inspected_network import shifted, state_vector
from eigentrack.layers import MIXERS
from eigentrack.models import ModelConfig, SequenceModel


@torch.no_grad()
@pytest.mark.parametrize("mixer", sorted(set(MIXERS) - {"attention"}))  # whose state grows
def test_every_number_of_a_state_is_seen_and_moved(mixer: str) -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1, mixer=mixer))
    tokens = torch.randint(3, (2, 5))
    _, state = model(tokens)
    before = state_vector(state)
    (layer,) = state.layers
    assert before.shape == (2, sum(part[0].numel() for part in (*layer.memory, layer.window) if part is not None))
    moved = shifted(state, torch.full_like(before, 0.25))
    torch.testing.assert_close(state_vector(moved), before + 0.25)
    logits, _ = model(tokens, moved)
    assert logits.isfinite().all()
    assert not torch.equal(logits, model(tokens, state)[0])
