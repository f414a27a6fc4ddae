"""A byte-level BPE and a model for it, random and small, in a folder as a run leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from eigentrack.lm.tokenizer import TrainedBpe, load_tokenizer
from eigentrack.models import ModelConfig, SequenceModel, save_model

TEXT = "def add(a, b):\n    return a + b  # größer, 数 or 🙂\n" * 40
VOCAB = 300


def write_language_model(folder: Path, *, mixer: str = "deltanet", **model: Any) -> Path:
    TrainedBpe(VOCAB).write(folder, [TEXT])
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=load_tokenizer(folder).vocab_size, d_model=16, layers=2, mixer=mixer, **model)
    network = SequenceModel(config)
    with torch.no_grad():
        network.head.weight *= 4  # far from uniform
    save_model(network, folder)
    return folder
