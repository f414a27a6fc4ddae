"""ModelConfig: everything that determines a SequenceModel except its weights; it is checked and can be written as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from eigentrack.layers import MIXERS, Mixer
from eigentrack.layers.correction import CorrectionSize
from eigentrack.layers.initialisers import INITIALISERS
from eigentrack.layers.validation import check_backend, require_positive, require_positive_number
from eigentrack.models.migration import current_form
from eigentrack.options import accepted_options, check_options
from eigentrack.spectrum import EigenRange, Eigenvalues, eigenvalues_from_json

# entries with one value for all layers or a tuple of one per layer: the type of a value, and its description in errors
_PER_LAYER: dict[str, tuple[Any, str]] = {
    "mixer": (str, "a name"),
    "mixer_options": (Mapping, "a mapping"),
    "initial": (Mapping, "a mapping"),
    "norm_place": (str, "before or after"),
    "mlp_width": ((int, NoneType), "a whole number, 0 for no MLP, or None for 2*d_model"),
}
_RANGE_OPTIONS = ("eigenvalues", "gate", "widened_from")  # mixer options that hold a set of eigenvalues


@dataclass(frozen=True)
class ModelConfig:
    """The configuration of a SequenceModel.

    `mixer`, `mixer_options`, `initial`, `mlp_width` and `norm_place` are one value for all layers, or a tuple with one per
    layer, so that a hybrid model needs no class of its own.
    """

    vocab_size: int  # the number of tokens
    d_model: int = 128  # the width of the residual stream
    layers: int = 2  # the number of blocks
    mixer: str | tuple[str, ...] = "deltanet"  # a name in `layers.MIXERS`
    eigenvalues: Eigenvalues = EigenRange(-1, 1)  # the set of eigenvalues of all linear mixers  # noqa: RUF009, it is frozen
    # options of the mixer; those named like an entry of the model (eigenvalues, norm_eps, backend) replace it for the layer
    mixer_options: Mapping[str, Any] | tuple[Mapping[str, Any], ...] = field(default_factory=dict)
    # initial values of a new model's weights, by the names of `layers.initialisers.INITIALISERS`
    initial: Mapping[str, Any] | tuple[Mapping[str, Any], ...] = field(default_factory=dict)
    mlp_width: int | tuple[int, ...] | None = None  # None: 2 d_model; 0: no MLP
    norm: str = "rms"  # "rms", or "none" for models whose weights are set instead of learned
    norm_place: str | tuple[str, ...] = "before"  # "before", or "after" the mixer and the MLP, within the residual branch
    norm_eps: float = 1e-5  # the eps of the norms, which keeps them from dividing by 0
    tie_embeddings: bool = False  # whether the head shares its weights with the embedding
    backend: str = "auto"  # the backend of the ops: auto, reference, chunked or triton
    correction: CorrectionSize | None = None  # codes that the memories are set to every few tokens; None: never

    def __post_init__(self) -> None:
        require_positive(vocab_size=self.vocab_size, d_model=self.d_model, layers=self.layers)
        if not isinstance(self.eigenvalues, Eigenvalues):
            raise ValueError(
                f"eigenvalues={self.eigenvalues!r} must be an EigenRange, as EigenRange(-1, 1), an EigenDisk or an EigenPolygon"
            )
        if self.norm not in ("rms", "none"):
            raise ValueError(f"norm={self.norm!r} must be rms or none")
        require_positive_number(norm_eps=self.norm_eps)
        if not isinstance(self.tie_embeddings, bool):
            raise ValueError(f"tie_embeddings={self.tie_embeddings!r} must be true or false")
        for name, (kind, expected) in _PER_LAYER.items():
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, name, tuple(value))
                if len(value) != self.layers:
                    raise ValueError(f"{name} lists {len(value)} entries for layers={self.layers}: give one, or one a layer")
            for entry in self._per_layer(name):
                if not isinstance(entry, kind) or isinstance(entry, bool):
                    raise ValueError(f"{name}={value!r} must be {expected}, or one a layer")
        if any(width is not None and width < 0 for width in self._per_layer("mlp_width")):
            raise ValueError(f"mlp_width={self.mlp_width!r} must be {_PER_LAYER['mlp_width'][1]}")
        if not set(self.norm_places) <= {"before", "after"}:
            raise ValueError(f"norm_place={self.norm_place!r} must be {_PER_LAYER['norm_place'][1]}, or one a layer")
        for name, options in zip(self.mixers, self.options, strict=True):
            _check_mixer(name, options)
        if unknown := sorted({name for values in self.initial_values for name in values} - set(INITIALISERS)):
            raise ValueError(f"initial value {unknown[0]!r} is not known; there are {', '.join(INITIALISERS)}")
        check_backend(self.backend)
        if self.correction is not None and not isinstance(self.correction, CorrectionSize):
            raise ValueError(f"correction={self.correction!r} must be a CorrectionSize, or None")

    @property
    def mixers(self) -> tuple[str, ...]:
        """The mixer of every layer."""
        return self._per_layer("mixer")

    @property
    def mlp_widths(self) -> tuple[int, ...]:
        """The width of every layer's MLP; 0 where there is none."""
        return tuple(2 * self.d_model if width is None else width for width in self._per_layer("mlp_width"))

    @property
    def norm_places(self) -> tuple[str, ...]:
        """The place of every layer's norms, "before" or "after"."""
        return self._per_layer("norm_place")

    @property
    def options(self) -> tuple[Mapping[str, Any], ...]:
        """The options of every layer's mixer."""
        return self._per_layer("mixer_options")

    @property
    def initial_values(self) -> tuple[Mapping[str, Any], ...]:
        """The initial values of every layer's mixer, by the names of initialisers."""
        return self._per_layer("initial")

    def build_mixer(self, layer: int) -> Mixer:
        """Build the mixer of a layer, with its initial weights."""
        mixer, options = MIXERS[self.mixers[layer]], dict(self.options[layer])
        # the model's values are defaults of the layer's options
        for name in ("eigenvalues", "norm_eps", "backend"):
            if name in accepted_options(mixer):
                options.setdefault(name, getattr(self, name))
        built = mixer(self.d_model, **options)
        for name, value in self.initial_values[layer].items():
            INITIALISERS[name](built, value)
        return built

    def to_json(self) -> dict[str, Any]:
        """Return the configuration in plain JSON values.

        `initial` is left out if it is empty, and `correction` if there is none, so that the hashes of older models stay the
        same.
        """
        values = {item.name: _plain(getattr(self, item.name)) for item in dataclasses.fields(self)}
        if not self.initial:
            del values["initial"]
        if self.correction is None:
            del values["correction"]
        return values

    @classmethod
    def from_json(cls, values: Any) -> ModelConfig:
        """Return the configuration for JSON values that this version or an older one has written."""
        known = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(values, dict) or "vocab_size" not in values:
            raise ValueError("a model configuration must be a JSON object with at least vocab_size")
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown configuration entry {unknown[0]!r}; known are {', '.join(sorted(known))}")
        values = dict(current_form(values))
        if "eigenvalues" in values:
            values["eigenvalues"] = eigenvalues_from_json(values["eigenvalues"])
        if "mixer_options" in values:
            options = values["mixer_options"]
            values["mixer_options"] = (
                tuple(_decode_options(entry) for entry in options) if isinstance(options, list) else _decode_options(options)
            )
        if values.get("correction") is not None:
            values["correction"] = CorrectionSize.from_json(values["correction"])
        for name in ("mixer", "initial", "mlp_width", "norm_place"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return cls(**values)

    def _per_layer(self, name: str) -> tuple[Any, ...]:
        value = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) * self.layers


def _check_mixer(name: str, options: Mapping[str, Any]) -> None:
    if name not in MIXERS:
        raise ValueError(f"mixer={name!r} is not known; there are {', '.join(MIXERS)}")
    check_options(f"mixer {name!r}", MIXERS[name], options, without=("d_model",))


def _plain(value: Any) -> Any:
    if isinstance(value, Eigenvalues):
        return value.to_json()
    if isinstance(value, CorrectionSize):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value


def _decode_options(options: Any) -> Any:
    if not isinstance(options, dict):
        return options  # ModelConfig raises an error for it
    return {
        key: eigenvalues_from_json(value) if key in _RANGE_OPTIONS and value is not None else value
        for key, value in options.items()
    }
