"""Language models on disk: the folder of a run, of a model, or one in Hugging Face's format, with the tokenizer in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eigentrack.lm.tokenizer import TOKENIZER_FILE, Tokenizer, load_tokenizer
from eigentrack.models import SequenceModel, load_model
from eigentrack.training.run import MODEL, RUN_FILE


@dataclass(frozen=True)
class LanguageModel:
    """A model with its tokenizer."""

    folder: Path  # where the weights and the tokenizer lie
    model: SequenceModel
    tokenizer: Tokenizer


def find_model_folder(folder: Path) -> Path:
    """Return the folder that holds the weights of a run or a model."""
    if not (folder / RUN_FILE).exists():
        return folder
    if not (folder / MODEL).is_dir():
        raise ValueError(f"{folder} holds a run without a model, for it is not finished: go on with --resume")
    return folder / MODEL


def load_language_model(folder: Path, device: str = "cpu") -> LanguageModel:
    folder = find_model_folder(folder)
    model = load_model(folder, device).eval()
    if not (folder / TOKENIZER_FILE).is_file():
        raise ValueError(f"{folder} has no {TOKENIZER_FILE}: copy the tokenizer of its corpus (CORPUS/tokenizer/*) there")
    tokenizer = load_tokenizer(folder)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"{folder}: its tokenizer has {tokenizer.vocab_size} tokens, the model knows {model.config.vocab_size}: "
            "they do not belong together"
        )
    return LanguageModel(folder, model, tokenizer)
