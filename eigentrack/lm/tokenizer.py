"""Tokenizers in folders of Hugging Face's format (tokenizer.json and its configuration): copied, or trained on the text.

`AutoTokenizer.from_pretrained(folder)` can read such a folder; here only the Rust library is used to encode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.files import NotWritten, write_json, write_text
from eigentrack.lm.optional_packages import require

TOKENIZER_FILE, CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
END_OF_TEXT = "<|endoftext|>"
SMALLEST_BPE = 257  # 256 bytes and the end-of-text token
BPE_SAMPLE_CHARACTERS = 256 << 20  # more text hardly changes the merges, and the counts of all words must fit in memory


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of the Rust library, with its end token and vocabulary size."""

    rust: Any  # tokenizers.Tokenizer
    end: int | None  # the token at the end of every document; None if the tokenizer has none
    vocab_size: int
    fingerprint: str  # SHA-256 of tokenizer.json

    def encode(self, texts: Sequence[str], dtype: str) -> list[NDArray[Any]]:
        """Return the tokens of each text, without special tokens."""
        encodings = self.rust.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=dtype) for encoding in encodings]


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer in a folder that a NamedTokenizer or a TrainedBpe wrote."""
    require("tokenizers", "encodes text", "lm")
    from tokenizers import Tokenizer as RustTokenizer

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {folder} holds no tokenizer of the fast kind")
    try:
        rust = RustTokenizer.from_file(str(path))
        end = json.loads((folder / CONFIG_FILE).read_text()).get("eos_token")
        end = end["content"] if isinstance(end, dict) else end
        end_id = None if end is None else rust.token_to_id(end)
    except Exception as error:  # the Rust library raises plain Exceptions
        raise ValueError(f"{folder} holds no readable tokenizer ({str(error).splitlines()[0]})") from None
    rust.no_truncation()
    rust.no_padding()
    rust.encode_special_tokens = True  # the text of a special token in a document is encoded as plain text
    ids = rust.get_vocab(with_added_tokens=True).values()
    return Tokenizer(rust, end_id, max(ids, default=-1) + 1, fingerprint(folder))


def fingerprint(folder: Path) -> str:
    """Return the SHA-256 of the tokenizer in the folder."""
    return hashlib.sha256((folder / TOKENIZER_FILE).read_bytes()).hexdigest()


@dataclass(frozen=True)
class NamedTokenizer:
    """A tokenizer that transformers can load, by name or from a folder."""

    name: str

    def write(self, folder: Path, texts: Iterable[str]) -> None:
        require("transformers", "loads tokenizers by name", "lm")
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self.name)
        except Exception as error:  # transformers raises its own kinds, and those of the network and the files below it
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"tokenizer {self.name!r} cannot be loaded, neither from a folder nor by name: {reason}") from None
        if not tokenizer.is_fast:
            raise ValueError(f"tokenizer {self.name!r} has no fast form ({TOKENIZER_FILE}): choose another one")
        try:
            tokenizer.save_pretrained(folder)
        except Exception as error:  # the Rust library raises plain Exceptions
            raise NotWritten(folder, error, was_there=False) from None


@dataclass(frozen=True)
class TrainedBpe:
    """A byte-level BPE trained on the texts; it can encode every text, and decoding gives back its bytes."""

    vocab_size: int

    def __post_init__(self) -> None:
        if self.vocab_size < SMALLEST_BPE:
            raise ValueError(f"a byte-level BPE has at least {SMALLEST_BPE} tokens, got {self.vocab_size}")

    def write(self, folder: Path, texts: Iterable[str]) -> None:
        require("tokenizers", "trains a BPE", "lm")
        from tokenizers import Tokenizer as RustTokenizer
        from tokenizers import decoders, models, pre_tokenizers, trainers

        rust = RustTokenizer(models.BPE())
        rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        rust.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        rust.train_from_iterator(_sample(texts), trainer)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / TOKENIZER_FILE, rust.to_str(pretty=True))
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT, "clean_up_tokenization_spaces": False}
        write_json(folder / CONFIG_FILE, config)


def _sample(texts: Iterable[str]) -> Iterator[str]:
    characters = 0
    for text in texts:
        if characters >= BPE_SAMPLE_CHARACTERS:
            return
        characters += len(text)
        yield text


def bytes_of_tokens(tokenizer: Tokenizer) -> NDArray[np.int64] | None:
    """Return how many bytes of text each token stands for, by its id, for bits per byte; special tokens have 0.

    A byte-level tokenizer writes every byte as one character; for other kinds None is returned.
    """
    from tokenizers import decoders

    if not isinstance(tokenizer.rust.decoder, decoders.ByteLevel):
        return None
    sizes = np.zeros(tokenizer.vocab_size, np.int64)
    added = tokenizer.rust.get_added_tokens_decoder()
    for token, number in tokenizer.rust.get_vocab(with_added_tokens=True).items():
        if number not in added:
            sizes[number] = len(token)
        elif not added[number].special:
            sizes[number] = len(token.encode())
    return sizes
