"""Models as the series of experiments name them: layers without a convolution, twins in two ranges, equally large ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from eigentrack.experiments.design.experiment import OfBudget, Series, Settings
from eigentrack.layers import MIXERS
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.options import accepted_options

NARROW, WIDE, DISK = [0.0, 1.0], [-1.0, 1.0], {"disk": [0.0, 1.0]}


def layer(mixer: str, eigenvalues: Any = WIDE, *, layers: int, **options: Any) -> dict[str, Any]:
    """Return a model of so many layers without a convolution, as theory speaks of them."""
    no_convolution = {"conv": 0} if "conv" in accepted_options(MIXERS[mixer]) else {}
    return {"mixer": mixer, "eigenvalues": eigenvalues, "mixer_options": options | no_convolution, "layers": layers}


def in_both_ranges(label: str, model: Mapping[str, Any], more: str = "") -> tuple[Series, Series]:
    """Return twins that differ in their range alone; `more` ends their labels."""
    narrow, wide = (
        Series(f"{label} [{low:g}, {high:g}]{more}", {**model, "eigenvalues": [low, high]}) for low, high in (NARROW, WIDE)
    )
    return narrow, wide


def equally_large(series: Sequence[Series], mlp_width: float) -> tuple[Series, ...]:
    """Return the series with MLPs so wide that all have equally many parameters: the largest `mlp_width` times d_model."""

    @cache
    def widths(settings: Settings) -> dict[str, int]:
        models = {entry.label: settings.filled_in(entry.model) for entry in series}
        found = matched(models, settings.d_model, round(mlp_width * settings.d_model))
        return {label: model["mlp_width"] for label, model in found.items()}

    def widened(entry: Series) -> Series:
        return replace(entry, model={**entry.model, "mlp_width": OfBudget(lambda settings: widths(settings)[entry.label])})

    return tuple(map(widened, series))


def matched(models: Mapping[str, dict[str, Any]], d_model: int, mlp_width: int) -> dict[str, dict[str, Any]]:
    """Return the models by name, with MLPs that make them equally large; `mlp_width` is that of the largest model."""
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
