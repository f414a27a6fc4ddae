"""A prepared corpus: a folder of token shards that are memory-mapped, never loaded.

    index.json              what is there: splits, sizes, checksums, vocabulary
    train-00000.tokens ...  token ids end to end, little-endian; all shards of a split but the last are of one length
    train.starts            where each document begins, as int64 positions in the split
    tokenizer/              the tokenizer that made the tokens

Only numpy is needed to read a corpus.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

INDEX_FILE, TOKENIZER_FOLDER = "index.json", "tokenizer"
FORMAT = 1
DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
STARTS = np.dtype("<i8")


@dataclass(frozen=True)
class StoredFile:
    """A file of a corpus, with its size and checksum."""

    file: str  # the file's name within the folder
    entries: int
    sha256: str

    def __post_init__(self) -> None:
        if not isinstance(self.file, str) or not _is_count(self.entries) or not isinstance(self.sha256, str):
            raise TypeError("a file has a name, a number of entries and a checksum")


@dataclass(frozen=True)
class Split:
    """The files and counts of one split of a corpus."""

    tokens: int
    documents: int
    shard_tokens: int  # the number of tokens of every shard but the last
    shards: tuple[StoredFile, ...]
    starts: StoredFile

    def __post_init__(self) -> None:
        sizes = [shard.entries for shard in self.shards]
        if not all(map(_is_count, (self.tokens, self.documents, self.shard_tokens))):
            raise TypeError("tokens, documents and shard_tokens are whole numbers")
        if (
            sum(sizes) != self.tokens
            or any(size != self.shard_tokens for size in sizes[:-1])
            or self.starts.entries != self.documents
        ):
            raise TypeError("shards and counts disagree")

    @staticmethod
    def from_json(values: dict[str, Any]) -> Split:
        shards = tuple(StoredFile(**shard) for shard in values["shards"])
        return Split(**{**values, "shards": shards, "starts": StoredFile(**values["starts"])})


@dataclass(frozen=True)
class CorpusIndex:
    """The contents of index.json."""

    dtype: str  # the type of the tokens, a key of DTYPES
    vocab_size: int
    end_of_document: int | None  # the token after each document; None if there is none
    tokenizer_sha256: str
    splits: dict[str, Split]

    def __post_init__(self) -> None:
        end = self.end_of_document
        if not _is_count(self.vocab_size) or not (end is None or (_is_count(end) and end < self.vocab_size)):
            raise TypeError("vocab_size is a whole number, and end_of_document None or one below it")
        if not isinstance(self.dtype, str) or not isinstance(self.tokenizer_sha256, str):
            raise TypeError("dtype and tokenizer_sha256 are text")

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @staticmethod
    def load(folder: Path) -> CorpusIndex:
        path = folder / INDEX_FILE
        try:
            values = json.loads(path.read_text())
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is missing: {folder} is not a corpus; `eigentrack lm prepare` makes one") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not valid JSON ({error})") from None
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ValueError(f"{path} is not the index of a corpus of format {FORMAT}: prepare it again")
        try:
            splits = {name: Split.from_json(split) for name, split in values.pop("splits").items()}
            index = CorpusIndex(splits=splits, **values)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is incomplete or was edited ({error}): prepare the corpus again") from None
        if index.dtype not in DTYPES:
            raise ValueError(f"{path}: dtype {index.dtype!r} is not known; there are {', '.join(DTYPES)}")
        return index


class Corpus:
    """One split of a prepared folder."""

    def __init__(self, folder: Path, name: str, index: CorpusIndex) -> None:
        """Map the files of a split into memory without any check; `Corpus.open` checks them."""
        self.folder, self.name, self.index, self.split = folder, name, index, index.splits[name]
        self.tokens, self.documents = self.split.tokens, self.split.documents
        self.vocab_size, self.end_of_document = index.vocab_size, index.end_of_document
        self._shards = [np.memmap(folder / shard.file, self.dtype, mode="r") for shard in self.split.shards]
        self.starts: NDArray[np.int64] = np.memmap(folder / self.split.starts.file, STARTS, mode="r")

    @staticmethod
    def open(folder: str | Path, split: str = "train", *, verify: bool = False) -> Corpus:
        """Open a split and check the sizes of its files; with `verify`, also check every byte and every token."""
        folder = Path(folder)
        index = CorpusIndex.load(folder)
        if split not in index.splits:
            raise ValueError(f"{folder} has no split {split!r}; there are {', '.join(index.splits) or 'none'}")
        stored = index.splits[split]
        if not stored.tokens:
            raise ValueError(f"{folder}: split {split!r} is empty")
        for file in stored.shards:
            _check_size(folder, file, DTYPES[index.dtype])
        _check_size(folder, stored.starts, STARTS)
        corpus = Corpus(folder, split, index)
        if verify:
            corpus.verify()
        return corpus

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.index.dtype]

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for equal tokens, document starts and vocabulary sizes."""
        parts = [*self.split.shards, self.split.starts]
        text = json.dumps([self.index.dtype, self.vocab_size, [[part.entries, part.sha256] for part in parts]])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def check_vocabulary(self, model_vocab_size: int) -> None:
        """Raise if the corpus has a larger vocabulary than the model."""
        if self.vocab_size > model_vocab_size:
            raise ValueError(
                f"{self.folder} holds tokens of a vocabulary of {self.vocab_size}, the model knows {model_vocab_size}: "
                f"set vocab_size={self.vocab_size}, or prepare the corpus with the model's tokenizer"
            )

    def read(self, position: int, length: int) -> NDArray[Any]:
        """Return the tokens position : position + length of the split; a view if one shard holds them all."""
        if not 0 <= position <= position + length <= self.tokens:
            raise ValueError(f"tokens {position}:{position + length} do not lie within the split's {self.tokens}")
        shard, offset = divmod(position, self.split.shard_tokens)
        if length and offset + length > self.split.shard_tokens:
            here = self.split.shard_tokens - offset
            return np.concatenate([self._shards[shard][offset:], self.read(position + here, length - here)])
        return self._shards[shard][offset : offset + length] if length else np.empty(0, self.dtype)

    def document(self, number: int) -> NDArray[Any]:
        """Return the tokens of one document, its end token included."""
        if not 0 <= number < self.documents:
            raise ValueError(f"document {number} is not among the split's {self.documents}")
        start = int(self.starts[number])
        end = int(self.starts[number + 1]) if number + 1 < self.documents else self.tokens
        return self.read(start, end - start)

    @property
    def stored_bytes(self) -> int:
        return self.tokens * self.dtype.itemsize + self.documents * STARTS.itemsize

    def verify(self) -> None:
        """Read every file and raise if a checksum differs or a token lies outside the vocabulary."""
        for file in (*self.split.shards, self.split.starts):
            with (self.folder / file.file).open("rb") as stored:
                if hashlib.file_digest(stored, "sha256").hexdigest() != file.sha256:
                    raise ValueError(f"{self.folder / file.file} is damaged (its checksum differs): copy or prepare it again")
        highest = max(int(shard.max()) for shard in self._shards)
        if highest >= self.vocab_size:
            raise ValueError(f"{self.folder}: token {highest} lies outside the vocabulary of {self.vocab_size}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def document_starts(openings: NDArray[np.int64], tokens: int) -> NDArray[np.int64]:
    """Return the starts of the documents that have tokens; an empty one opens where the next does, or at the end."""
    return np.unique(openings[openings < tokens]).astype(STARTS)


def _check_size(folder: Path, file: StoredFile, dtype: np.dtype[Any]) -> None:
    path, expected = folder / file.file, file.entries * dtype.itemsize
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: copy it, or prepare the corpus again")
    if (size := path.stat().st_size) != expected:
        raise ValueError(f"{path} has {size} bytes, {file.entries} entries of {dtype.name} take {expected}: it is damaged")
