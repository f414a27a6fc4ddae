"""Widening a model: every layer with eigenvalues in a narrower range gets the wider one, and computes what it did.

docs/derivations/widening.md: the new range comes with a shift of the eigenvalues that is 0 until training moves it.
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
    """The same function with eigenvalues that training can take anywhere in the new range. Weights are shared, not copied."""
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
    """The options of a layer; a layer without eigenvalues, or with these already, keeps what it had."""
    given, mixer = dict(config.options[layer]), MIXERS[config.mixers[layer]]
    before = layer_options(config, layer).get("eigenvalues")
    if before is None or before == eigenvalues:
        return given
    if not isinstance(before, EigenRange):
        raise ValueError(f"layer {layer} has eigenvalues in {before}: only a real range can be widened")
    if before.ends == eigenvalues.ends:  # with an overshoot, which is the layer's own
        return {**given, "eigenvalues": before}
    if "widened_from" not in accepted_options(mixer):
        raise ValueError(f"layer {layer}, a {config.mixers[layer]}, cannot be widened without changing what it computes")
    if given.get("widened_from") is not None:
        raise ValueError(f"layer {layer} has been widened before, from {given['widened_from']} to {before}")
    if "eigenvalues" in given:
        given["eigenvalues"] = eigenvalues
    return {**given, "widened_from": before}
