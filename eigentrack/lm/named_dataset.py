"""Documents of a dataset that the `datasets` library knows by name, streamed by it; only their tokens are stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eigentrack.lm.documents import Piece, Place, ShareSplit, cut
from eigentrack.lm.optional_packages import require
from eigentrack.lm.text_files import NAME_THE_FIELD, field_of


@dataclass(frozen=True)
class DatasetDocuments:
    """The rows of a named dataset; a place is (row, piece of the row), and the library skips the rows before it."""

    name: str
    subset: str | None  # None: the dataset's default
    rows: str  # the dataset's own split, such as train
    rule: ShareSplit
    text_field: str = "text"
    first: int | None = None  # how many rows to read; None: all
    remedy: str = NAME_THE_FIELD  # ends the error about a row without the field: what the user can do

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise ValueError(f"dataset {self.name}: the first {self.first} rows are none, give at least 1")

    @property
    def total_bytes(self) -> None:
        return None

    def identity(self) -> dict[str, Any]:
        values = {"dataset": self.name, "subset": self.subset, "rows": self.rows}
        return {**values, "rule": repr(self.rule), "text_field": self.text_field, "first": self.first}

    def pieces(self, start: Place = Place()) -> Iterator[Piece]:
        read = 0
        for number, row in enumerate(self._stored_rows(start.file), start.file):
            where = f"dataset {self.name}, row {number + 1}"
            document, split, place = field_of(row, self.text_field, where, self.remedy), "", Place(number, 0)
            for text, opens, closes in cut([document]):
                place = Place(number + 1, 0) if closes else Place(number, place.piece + 1)
                split = self.rule(text, None) if opens else split
                read += len(text)
                if place > start:
                    yield Piece(text, opens, closes, split, place, read)

    def _stored_rows(self, skipped: int) -> Iterator[Any]:
        require("datasets", "streams datasets by name", "lm")
        from datasets import load_dataset  # type: ignore[import-untyped]

        try:
            rows = load_dataset(self.name, self.subset, split=self.rows, streaming=True).skip(skipped)
            yield from rows if self.first is None else rows.take(self.first - skipped)
        except Exception as error:  # the library raises its own kinds, and those of the network and the files below it
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"dataset {self.name!r}, split {self.rows!r} cannot be read: {reason}") from None
