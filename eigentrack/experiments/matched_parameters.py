"""Models that differ in their mixers, with equally many parameters: a smaller mixer gets a wider MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from eigentrack.models import ModelConfig, SequenceModel


def matched(models: Mapping[str, dict[str, Any]], d_model: int, mlp_width: int) -> dict[str, dict[str, Any]]:
    """By name; all have the same number of layers. `mlp_width` is that of the largest."""
    without_mlp = {name: _parameters({**model, "d_model": d_model, "mlp_width": 0}) for name, model in models.items()}
    largest = max(without_mlp.values())

    def width(name: str) -> int:
        column = 3 * d_model * models[name]["layers"]  # an MLP has three matrices of d × width
        return mlp_width + round((largest - without_mlp[name]) / column)

    return {name: {**model, "mlp_width": width(name)} for name, model in models.items()}


def _parameters(model: dict[str, Any]) -> int:
    with torch.device("meta"):  # sizes alone; no random number is drawn
        built = SequenceModel(ModelConfig.from_json({**model, "vocab_size": 2}))
    return sum(parameter.numel() for parameter in built.parameters())
