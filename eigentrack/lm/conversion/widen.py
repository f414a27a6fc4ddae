"""Widening of a model: every layer with a narrower range of eigenvalues gets the wider range, and still computes the same.

The wider range comes with a shift of the eigenvalues that is 0 until training changes it (docs/derivations/widening.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eigentrack.layers import MIXERS
from eigentrack.lm.conversion.family import layer_options
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.options import accepted_options
from eigentrack.spectrum import EigenRange, Eigenvalues


def widen(model: SequenceModel, eigenvalues: Eigenvalues) -> SequenceModel:
    """Return a model that computes the same, whose eigenvalues training can move anywhere in the new range.

    `model` is the model to widen, whose weights are shared and not copied; `eigenvalues` is the new range.
    """
    if not isinstance(eigenvalues, EigenRange):
        raise ValueError(f"eigenvalues {eigenvalues} have angles, and a model is widened to a real range only, such as -1,1")
    config = model.config
    options = tuple(_widened(config, layer, eigenvalues) for layer in range(config.layers))
    if all(new.get("widened_from") == given.get("widened_from") for new, given in zip(options, config.options, strict=True)):
        raise ValueError(f"no layer has a narrower range than {eigenvalues}: there is nothing to widen")
    same_for_all = isinstance(config.mixer_options, Mapping) and all(entry == options[0] for entry in options)
    wide = SequenceModel(replace(config, eigenvalues=eigenvalues, mixer_options=options[0] if same_for_all else options))
    weights = model.state_dict()
    for name, parameter in wide.named_parameters():
        if name not in weights:  # a shift, which starts at 0
            weights[name] = parameter.detach().to(model.embedding.weight)
    wide.load_state_dict(weights, assign=True)
    if config.tie_embeddings:
        wide.head.weight = wide.embedding.weight
    return wide.train(model.training)


def _widened(config: ModelConfig, layer: int, eigenvalues: EigenRange) -> dict[str, Any]:
    """Return the options of the widened layer; a layer without eigenvalues, or already in this range, keeps its options."""
    given, mixer = dict(config.options[layer]), MIXERS[config.mixers[layer]]
    before = layer_options(config, layer).get("eigenvalues")
    if before is None or before == eigenvalues:
        return given
    if not isinstance(before, EigenRange):
        raise ValueError(f"layer {layer} has eigenvalues in {before}: only a real range can be widened")
    if before.ends == eigenvalues.ends:  # the ranges differ only in the overshoot, which the layer keeps
        return {**given, "eigenvalues": before}
    if "widened_from" not in accepted_options(mixer):
        raise ValueError(f"layer {layer}, a {config.mixers[layer]}, cannot be widened without changing what it computes")
    if given.get("widened_from") is not None:
        raise ValueError(f"layer {layer} has been widened before, from {given['widened_from']} to {before}")
    if "eigenvalues" in given:
        given["eigenvalues"] = eigenvalues
    return {**given, "widened_from": before}
