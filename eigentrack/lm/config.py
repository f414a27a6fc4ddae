"""LanguageRunConfig: everything that determines the training of a language model, in JSON, in YAML or in Python.

preset: deltanet-340m           # gives the entries that are not given below; without a preset, all must be given
corpus: corpora/fineweb         # made by `eigentrack lm prepare`
model: {eigenvalues: [0, 1]}
training: {tokens: 1e9}         # or steps
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from eigentrack.layers.validation import require_positive
from eigentrack.lm.presets import PRESETS
from eigentrack.models import ModelConfig
from eigentrack.models.migration import current_form
from eigentrack.training.config import OptimizationConfig
from eigentrack.training.config_file import check_keys, read_values


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(OptimizationConfig):
    """The settings of the optimisation of a language model.

    `batch` counts the sequences of a step over all processes and micro-batches; how they are shared out changes no result.
    """

    length: int  # tokens per sequence
    betas: tuple[float, float] = (0.9, 0.95)
    reset_documents: bool = True  # the state starts afresh with every document
    # these two decide how the work is done, not what is computed: a run may be resumed with other values
    accumulation: int = field(default=1, compare=False)  # micro-batches per step and process
    activation_checkpointing: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(length=self.length, accumulation=self.accumulation)
        for name in ("reset_documents", "activation_checkpointing"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r} must be true or false")

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.length

    @property
    def computed_in(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def check_ranks(self, ranks: int) -> None:
        if self.batch % (ranks * self.accumulation):
            raise ValueError(
                f"batch={self.batch} cannot be shared out equally over {ranks} processes and accumulation={self.accumulation} "
                f"micro-batches: make it a multiple of {ranks * self.accumulation}"
            )

    @classmethod
    def from_json(cls, values: Any) -> LanguageTrainingConfig:
        """Build the settings from JSON, in which `tokens` may replace `steps`: as many steps as see so many tokens."""
        if isinstance(values, dict) and "tokens" in values:
            values = dict(values)
            tokens = values.pop("tokens")
            if not isinstance(tokens, (int, float)) or isinstance(tokens, bool) or not 0 < tokens < math.inf:
                raise ValueError(f"tokens={tokens!r} must be a positive number")
            if "steps" in values:
                raise ValueError(f"tokens={tokens} and steps={values['steps']} say the same thing twice: leave one out")
            require_positive(batch=values.get("batch"), length=values.get("length"))
            values["steps"] = math.ceil(tokens / (values["batch"] * values["length"]))
        check_keys("training", values, cls)
        pairs: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**pairs)


@dataclass(frozen=True, kw_only=True)
class LanguageRunConfig:
    """The settings of one training run of a language model."""

    corpus: str = field(compare=False)  # a folder, which may be moved
    model: dict[str, Any]  # a ModelConfig in JSON; the default of its vocab_size is the corpus's
    training: LanguageTrainingConfig
    validate_every: int = 1000  # steps; 0: never
    validation_batches: int = 8
    checkpoint_every: int = 1000  # steps
    telemetry_every: int = 1000  # steps; 0: never
    corpus_fingerprint: str | None = None  # filled in when a run starts

    def __post_init__(self) -> None:
        for name, kind, wanted in (("corpus", str, "the name of a folder"), ("model", dict, "an object")):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name}={getattr(self, name)!r} must be {wanted}")
        require_positive(checkpoint_every=self.checkpoint_every, validation_batches=self.validation_batches)
        for name in ("validate_every", "telemetry_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name}={value!r} must be a whole number, 0 for never")
        object.__setattr__(self, "model", current_form(self.model))  # an earlier version may have written it in another form
        self.build_model_config(vocab_size=1)

    def build_model_config(self, vocab_size: int) -> ModelConfig:
        return ModelConfig.from_json({"vocab_size": vocab_size, **self.model})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> LanguageRunConfig:
        if isinstance(values, dict) and "preset" in values:
            values = _filled_in(values)
        check_keys("run", values, cls)
        return cls(**{**values, "training": LanguageTrainingConfig.from_json(values["training"])})


def load_language_run(path: Path) -> LanguageRunConfig:
    values = read_values(path)
    try:
        return LanguageRunConfig.from_json(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _filled_in(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a file, with the preset's entries where the file has none of its own."""
    name = values["preset"]
    if name not in PRESETS:
        raise ValueError(f"preset={name!r} is not known; there are {', '.join(PRESETS)}")
    preset, given = PRESETS[name], {key: value for key, value in values.items() if key != "preset"}
    merged: dict[str, Any] = {**preset, **given}
    for part in ("model", "training"):
        if part in given and not isinstance(given[part], dict):
            raise ValueError(f"{part}={given[part]!r} must be an object")
        merged[part] = {**preset[part], **given.get(part, {})}
    if "tokens" in given.get("training", {}):
        del merged["training"]["steps"]
    return merged
