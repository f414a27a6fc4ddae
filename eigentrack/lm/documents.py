"""Where text comes from: documents, cut into pieces that a tokenizer takes one at a time.

document  what belongs together: a text file, a line of JSONL, a row of a table; the model's state is reset between two
piece     up to PIECE_CHARACTERS of one document, cut at a line's end, so that a file larger than the memory can be read
place     (file, piece of the file): where a reader stands, and from where it can go on
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
    file: int = 0
    piece: int = 0


@dataclass(frozen=True)
class Piece:
    text: str
    opens: bool  # the document begins here
    closes: bool  # the document ends here
    split: str
    after: Place  # where a reader goes on behind it
    bytes_read: int  # of all the source's bytes on disk, up to here; for progress


class Documents(Protocol):
    @property
    def total_bytes(self) -> int | None:
        """None if nobody knows before the end."""

    def pieces(self, start: Place = Place()) -> Iterator[Piece]: ...

    def identity(self) -> dict[str, Any]:
        """Differs if the documents may differ: a preparation that was stopped goes on only over the same."""


@dataclass(frozen=True)
class ShareSplit:
    """A document goes to validation by the hash of its text, so that equal documents never end up on both sides."""

    validation_share: float

    def __post_init__(self) -> None:
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation share {self.validation_share} must be at least 0 and below 1")

    def __call__(self, opening: str, folder: str | None) -> str:
        number = int.from_bytes(hashlib.sha256(opening.encode(errors="replace")).digest()[:8])
        return VALIDATION if number < self.validation_share * 2**64 else TRAIN


class UnnamedSplit(ValueError):
    """The file lies in no folder that could name its split."""


@dataclass(frozen=True)
class FolderSplit:
    """The folder beneath the source names the split: corpus/train/a.txt, corpus/validation/b.txt."""

    def __call__(self, opening: str, folder: str | None) -> str:
        if folder is None:
            raise UnnamedSplit("a split by folder needs files in folders beneath the source, such as SOURCE/train/a.txt")
        return folder


SplitRule = ShareSplit | FolderSplit


def cut(lines: Iterable[str], size: int = PIECE_CHARACTERS) -> Iterator[tuple[str, bool, bool]]:
    """The document in pieces: (text, opens, closes). Depends on the text alone, not on how it was handed over in lines."""
    held, opens = "", True
    for line in lines:
        held += line
        while len(held) > size:
            end = held.rfind("\n", 0, size) + 1 or size
            yield held[:end], opens, False
            held, opens = held[end:], False
    if held:
        yield held, opens, True
