"""EigentrackConfig: a ModelConfig as a configuration of transformers, which adds special tokens, precision and the like.

config.json holds the ModelConfig under "sequence_model", and an auto_map to a file beside it that imports the installed
package, so that trust_remote_code runs the installed code and no copy of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from eigentrack.files import write_text
from eigentrack.models import ModelConfig

_MODULE = "eigentrack_model"
_AUTO_MAP = {"AutoConfig": f"{_MODULE}.EigentrackConfig", "AutoModelForCausalLM": f"{_MODULE}.EigentrackForCausalLM"}
_SOURCE = '''"""The model of this folder is that of the installed package: pip install eigentrack."""

from eigentrack.lm.hugging_face import EigentrackConfig as EigentrackConfig
from eigentrack.lm.hugging_face import EigentrackForCausalLM as EigentrackForCausalLM
'''


class EigentrackConfig(PreTrainedConfig):
    """A ModelConfig with the settings that transformers adds."""

    model_type = "eigentrack"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012, transformers reads it from the class

    sequence_model: dict[str, Any] | None = None  # ModelConfig.to_json()
    use_cache: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        # transformers also builds configurations without arguments, to find the default values
        self.sequence_model = ModelConfig(vocab_size=32_000).to_json() if self.sequence_model is None else self.sequence_model
        self.tie_word_embeddings = self.model_config.tie_embeddings
        super().__post_init__(**kwargs)
        self.auto_map = dict(_AUTO_MAP)

    @classmethod
    def of(cls, config: ModelConfig, **special_tokens: Any) -> EigentrackConfig:
        return cls(sequence_model=config.to_json(), **special_tokens)

    @property
    def model_config(self) -> ModelConfig:
        return ModelConfig.from_json(self.sequence_model)

    @property
    def vocab_size(self) -> int:
        return self.model_config.vocab_size

    @vocab_size.setter
    def vocab_size(self, size: int) -> None:
        self.sequence_model = {**(self.sequence_model or {}), "vocab_size": size}

    @property
    def hidden_size(self) -> int:
        return self.model_config.d_model

    @property
    def num_hidden_layers(self) -> int:
        return self.model_config.layers

    def save_pretrained(self, save_directory: str | os.PathLike[str], push_to_hub: bool = False, **kwargs: Any) -> None:
        super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)
        write_text(Path(save_directory) / f"{_MODULE}.py", _SOURCE)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Do nothing; otherwise save_pretrained would copy the source of this class into the folder."""
