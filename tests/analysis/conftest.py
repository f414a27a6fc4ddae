"""A trained network for the tests of this folder: DeltaNet on parity, a few seconds."""

from __future__ import annotations

import pytest
import torch

from eigentrack.analysis import InspectedNetwork
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig, train


@pytest.fixture(scope="session")
def trained_parity() -> InspectedNetwork:
    torch.manual_seed(1)
    model = SequenceModel(
        ModelConfig(vocab_size=3, d_model=16, layers=1, mixer="deltanet", mixer_options={"heads": 2, "conv": 0})
    )
    config = TrainingConfig(steps=200, batch=32, lengths=(3, 24), learning_rate=2e-2, label_smoothing=0.1, seed=1)
    train(model, parity(), config)
    return InspectedNetwork.from_task(model, parity())
