"""Documents in files: text (one per file), JSON lines and Parquet tables (one per row); .gz and .xz are unpacked."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from eigentrack.lm.documents import Piece, Place, SplitRule, UnnamedSplit, cut
from eigentrack.lm.optional_packages import require

COMPRESSED = (".gz", ".xz")
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"
NAME_THE_FIELD = "name the field that holds the text"


@dataclass(frozen=True)
class TextFile:
    """A file of documents."""

    path: Path
    folder: str | None  # the first folder on the way from the source to the file; None if there is none
    size: int  # in bytes

    @property
    def kind(self) -> str:
        """The last ending of the file's name, apart from that of the compression."""
        endings = [ending for ending in self.path.suffixes if ending not in COMPRESSED]
        return endings[-1] if endings else ""

    @property
    def compression(self) -> str:
        return self.path.suffix if self.path.suffix in COMPRESSED else ""


def find_files(sources: Iterable[Path]) -> tuple[TextFile, ...]:
    """Return every file of the sources, those of a folder in the order of their paths, without hidden files and folders."""
    found = []
    for source in sources:
        if source.is_file():
            found.append(TextFile(source, None, source.stat().st_size))
        elif source.is_dir():
            inside = [path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()]
            inside = [path for path in inside if not any(part.startswith(".") for part in path.parts)]
            if not inside:
                raise ValueError(f"{source} holds no files")
            for path in inside:
                folder = path.parts[0] if len(path.parts) > 1 else None
                found.append(TextFile(source / path, folder, (source / path).stat().st_size))
        else:
            raise FileNotFoundError(f"{source} is not there: give text, JSONL or Parquet files, or folders of them")
    return tuple(found)


@dataclass(frozen=True)
class FileDocuments:
    """The documents in files."""

    files: tuple[TextFile, ...]
    rule: SplitRule  # chooses the split of each document
    text_field: str = "text"  # the field or column that holds the text
    remedy: str = NAME_THE_FIELD  # ends the error about a row without the field: what the user can do

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def identity(self) -> dict[str, Any]:
        files = [[str(file.path), file.size, file.path.stat().st_mtime_ns] for file in self.files]
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        return {"files": len(files), "sha256": digest, "rule": repr(self.rule), "text_field": self.text_field}

    def pieces(self, start: Place = Place()) -> Iterator[Piece]:
        finished = sum(file.size for file in self.files[: start.file])
        for number, file in enumerate(self.files[start.file :], start.file):
            place, split = Place(number, 0), ""
            with _naming(file):
                for document, read in _documents(file, self.text_field, self.remedy):
                    for text, opens, closes in cut(document):
                        place = Place(number, place.piece + 1)
                        split = self.rule(text, file.folder) if opens else split
                        if place > start:
                            yield Piece(text, opens, closes, split, place, finished + read())
            finished += file.size


@contextmanager
def _naming(file: TextFile) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.path} is not UTF-8 text ({error.reason}): convert it, or leave it out") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{file.path} is damaged or cut short ({error})") from None
    except UnnamedSplit as error:
        raise ValueError(f"{file.path}: {error}") from None


def _documents(file: TextFile, field: str, remedy: str) -> Iterator[tuple[Iterable[str], Callable[[], int]]]:
    """Yield each document as strings to be joined, with a function that returns how many bytes of the file have been read."""
    if file.kind == PARQUET:
        yield from _parquet_rows(file, field, remedy)
        return
    with file.path.open("rb") as raw, _unpacked(raw, file.compression) as stream:
        for document in _json_lines(file, stream, field, remedy) if file.kind in JSON_LINES else [_decoded(stream)]:
            yield document, raw.tell


def _unpacked(raw: BinaryIO, compression: str) -> Any:
    openers: dict[str, Callable[[BinaryIO], Any]] = {".gz": gzip.open, ".xz": lzma.open, "": nullcontext}
    return openers[compression](raw)


def _decoded(stream: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    while part := stream.read(1 << 20):
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)


def _json_lines(file: TextFile, stream: BinaryIO, field: str, remedy: str) -> Iterator[list[str]]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{file.path}, line {number} is not valid JSON ({error.msg}): one document a line") from None
        except RecursionError:
            raise ValueError(f"{file.path}, line {number} is nested too deeply: one document a line") from None
        yield [field_of(row, field, f"{file.path}, line {number}", remedy)]


def _parquet_rows(file: TextFile, field: str, remedy: str) -> Iterator[tuple[list[str], Callable[[], int]]]:
    require("pyarrow", "reads Parquet files", "lm")
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

    if file.compression:
        raise ValueError(f"{file.path} is a compressed Parquet file: unpack it (a table is compressed inside)")
    try:
        with ParquetFile(file.path) as table:
            if field not in table.schema_arrow.names:
                field_of(dict.fromkeys(table.schema_arrow.names), field, str(file.path), remedy)
            rows = 0
            for batch in table.iter_batches(batch_size=256, columns=[field]):
                for row in batch.to_pylist():
                    rows += 1
                    read = partial(int, file.size * rows // table.metadata.num_rows)
                    yield [field_of(row, field, f"{file.path}, row {rows}", remedy)], read
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{file.path} is not a readable Parquet file ({str(error).splitlines()[0]})") from None


def field_of(row: Any, field: str, where: str, remedy: str) -> str:
    """Return the text of a row, or raise an error of one line that says what is wrong with the row."""
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {type(row).__name__}, not an object with the field {field!r}")
    if field not in row:
        raise ValueError(f"{where} has no field {field!r}, it has {', '.join(row) or 'none'}: {remedy}")
    if not isinstance(row[field], str):
        raise ValueError(f"{where}: field {field!r} is {type(row[field]).__name__}, not text: {remedy}")
    try:
        row[field].encode()
    except UnicodeEncodeError as error:  # JSON can spell half of a surrogate pair
        half = f"\\u{ord(row[field][error.start]):04x}"
        raise ValueError(f"{where}: field {field!r} holds {half}, half of a character: mend the row, or leave it out") from None
    return row[field]
