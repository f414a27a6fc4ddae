"""Sources of text: documents, cut into pieces that are tokenised one at a time.

document  a text file, a line of JSONL or a row of a table; the model's state may be reset between two documents
piece     up to PIECE_CHARACTERS of one document, cut at a line's end, so that a file larger than the memory can be read
place     (file, piece of the file): a position in the source, from which a reader can go on
split     train, validation, or the name of a folder
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

PIECE_CHARACTERS = 1 << 20
TRAIN, VALIDATION = "train", "validation"


class Place(NamedTuple):
    """A position in a source: the number of a file or row, and of a piece in it."""

    file: int = 0
    piece: int = 0


@dataclass(frozen=True)
class Piece:
    """A part of a document."""

    text: str
    opens: bool  # whether the document begins here
    closes: bool  # whether the document ends here
    split: str
    after: Place  # where a reader goes on after this piece
    bytes_read: int  # how much of the whole source was read, up to the end of this piece; for progress


class Documents(Protocol):
    """A source of documents."""

    @property
    def total_bytes(self) -> int | None:
        """The size of the source in bytes; None if it is unknown."""

    def pieces(self, start: Place = Place()) -> Iterator[Piece]: ...

    def identity(self) -> dict[str, Any]:
        """Return values that differ if the documents may differ; a stopped preparation is resumed only if they are equal."""


@dataclass(frozen=True)
class ShareSplit:
    """A rule that chooses the split by a hash of a document's first piece, so that equal documents share a split."""

    validation_share: float

    def __post_init__(self) -> None:
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation share {self.validation_share} must be at least 0 and below 1")

    def __call__(self, opening: str, folder: str | None) -> str:
        number = int.from_bytes(hashlib.sha256(opening.encode(errors="replace")).digest()[:8])
        return VALIDATION if number < self.validation_share * 2**64 else TRAIN


class UnnamedSplit(ValueError):
    """An error: the file lies in no folder that could name its split."""


@dataclass(frozen=True)
class FolderSplit:
    """A rule by which the folder beneath the source names the split: corpus/train/a.txt, corpus/validation/b.txt."""

    def __call__(self, opening: str, folder: str | None) -> str:
        if folder is None:
            raise UnnamedSplit("a split by folder needs files in folders beneath the source, such as SOURCE/train/a.txt")
        return folder


SplitRule = ShareSplit | FolderSplit


def cut(lines: Iterable[str], size: int = PIECE_CHARACTERS) -> Iterator[tuple[str, bool, bool]]:
    """Yield the pieces (text, opens, closes) of a document; they depend on the text alone, not on how it is cut into lines."""
    held, opens = "", True
    for line in lines:
        held += line
        while len(held) > size:
            end = held.rfind("\n", 0, size) + 1 or size
            yield held[:end], opens, False
            held, opens = held[end:], False
    if held:
        yield held, opens, True
