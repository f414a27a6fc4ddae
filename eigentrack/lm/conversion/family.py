"""Family: one kind of foreign checkpoint, with its weight names and the translation of its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eigentrack.layers import MIXERS
from eigentrack.lm.conversion.weights import WeightNames
from eigentrack.models import ModelConfig
from eigentrack.options import accepted_options
from eigentrack.spectrum import EigenRange, Eigenvalues

Values = Mapping[str, Any]
BOTH_RANGES = {
    False: EigenRange(0, 1),
    True: EigenRange(-1, 1),
}  # the range that a peer's switch for negative eigenvalues stands for
# options that no peer has, with the values at which a model can be converted
OURS_ALONE = {
    "learn_initial_state": False,
    "bare": False,
    "widened_from": None,
    "gate_per_channel": False,
}


@dataclass(frozen=True)
class Family:
    """One kind of foreign checkpoint."""

    name: str  # the model_type in config.json
    architecture: str  # the name of the model's class
    package: str  # the package that runs the model
    names: WeightNames
    to_ours: Callable[[Values], ModelConfig]  # translates their configuration
    to_theirs: Callable[[ModelConfig], dict[str, Any]]  # translates our configuration


def require(owner: str, values: Values, **expected: object) -> None:
    """Raise, with the name of the value, if a value differs from the only one that the other side can represent."""
    for name, wanted in expected.items():
        if (found := values.get(name, wanted)) != wanted:
            raise ValueError(f"{owner}: {name}={_written(found)} has no counterpart there, only {_written(wanted)} has")


def _written(value: object) -> str:
    return str(value) if isinstance(value, Eigenvalues) else repr(value)


def layer_options(config: ModelConfig, layer: int) -> dict[str, Any]:
    """Return all options of a layer, with the model's values and the mixer's defaults filled in."""
    given = config.options[layer]
    options = accepted_options(MIXERS[config.mixers[layer]], without=("d_model", "backend"))
    options |= {name: getattr(config, name) for name in ("eigenvalues", "norm_eps") if name in options}
    return {**options, **given}


def options_of_all_layers(config: ModelConfig, owner: str, mixer: str) -> dict[str, Any]:
    """Return the options that all layers share; raise if the layers differ, or if the peer has no counterpart."""
    if wrong := sorted(set(config.mixers) - {mixer}):
        raise ValueError(f"{owner}: mixer={wrong[0]!r} has no counterpart there, only {mixer!r} has")
    options = [layer_options(config, layer) for layer in range(config.layers)]
    if any(other != options[0] for other in options) or len(set(config.mlp_widths)) > 1:
        raise ValueError(f"{owner}: layers of different sizes or options have no counterpart there")
    require(owner, vars(config), norm="rms")
    require_drawn_weights(owner, config)
    for place in config.norm_places:
        require(owner, {"norm_place": place}, norm_place="before")
    require(owner, options[0], **OURS_ALONE)
    return options[0]


def require_drawn_weights(owner: str, config: ModelConfig) -> None:
    """Raise if a layer has initial values: they may add weights that the peer lacks, such as a bias of DeltaNet."""
    for values in config.initial_values:
        require(owner, {"initial": values}, initial={})


def negative_switch(owner: str, eigenvalues: EigenRange) -> bool:
    for negative, known in BOTH_RANGES.items():
        if eigenvalues == known:
            return negative
    raise ValueError(f"{owner}: eigenvalues {eigenvalues} have no counterpart there, only [0, 1] and [-1, 1] have")
