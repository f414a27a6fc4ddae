"""Documents come out whole and in order, from every kind of file, from any place on; bad files are named in one line."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.lm.documents import PIECE_CHARACTERS, FolderSplit, Piece, Place, ShareSplit, cut
from eigentrack.lm.named_dataset import DatasetDocuments
from eigentrack.lm.text_files import FileDocuments, find_files

TEXTS = ["first\nwith two lines", "zweiter, mit Umläuten äöü", "third \U0001f40d"]
LINES = "".join(json.dumps({"text": text, "id": number}) + "\n" for number, text in enumerate(TEXTS))


def read(
    *sources: Path, rule: ShareSplit | FolderSplit = ShareSplit(0), field: str = "text", start: Place = Place()
) -> list[Piece]:
    return list(FileDocuments(find_files(sources), rule, field).pieces(start))


def documents(pieces: list[Piece]) -> list[str]:
    texts: list[str] = []
    for piece in pieces:
        if piece.opens:
            texts.append("")
        texts[-1] += piece.text
    return texts


def write_parquet(path: Path, **columns: list[object]) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(columns), path, row_group_size=2)


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.jsonl": lambda path: path.write_text(LINES),
    "a.json": lambda path: path.write_text("\n \n" + LINES.replace("\n", "\n\n", 1)),  # blank lines are no documents
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "a.jsonl.xz": lambda path: path.write_bytes(lzma.compress(LINES.encode())),
    "a.parquet": lambda path: write_parquet(path, id=[0, 1, 2], text=list(TEXTS)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_row_is_a_document(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    pieces = read(tmp_path / name)
    assert documents(pieces) == TEXTS
    assert all(piece.opens and piece.closes for piece in pieces)
    assert pieces[-1].bytes_read == (tmp_path / name).stat().st_size


def test_every_text_file_is_a_document_and_folders_are_read_in_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "secret.txt").write_text("not this")
    (tmp_path / "b.txt").write_text(TEXTS[0])
    (tmp_path / "deep" / "er" / "c.py.gz").write_bytes(gzip.compress(TEXTS[1].encode()))
    (tmp_path / "z.md").write_bytes(b"\xef\xbb\xbf" + TEXTS[2].encode())  # a byte order mark is no text
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "empty.txt").write_text("")
    assert documents(read(tmp_path)) == [*TEXTS, TEXTS[0], TEXTS[1], TEXTS[2]]
    assert documents(read(tmp_path / "z.md", tmp_path / "b.txt")) == [TEXTS[2], TEXTS[0]]


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 9), st.lists(st.integers(0, 60)))
def test_a_document_is_cut_by_its_text_alone(text: str, size: int, handed_over: list[int]) -> None:
    bounds = [0, *sorted(handed_over), len(text)]
    parts = [text[start:end] for start, end in pairwise(bounds)]
    pieces = list(cut(parts, size))
    assert pieces == list(cut([text], size))
    assert "".join(piece for piece, _, _ in pieces) == text
    assert all(0 < len(piece) <= size for piece, _, _ in pieces)
    assert [opens for _, opens, _ in pieces] == [number == 0 for number in range(len(pieces))]
    assert [closes for _, _, closes in pieces] == [number == len(pieces) - 1 for number in range(len(pieces))]
    for piece, _, closes in pieces:  # at the end of a line wherever the piece has one
        assert closes or "\n" not in piece or piece.endswith("\n")


def test_reading_goes_on_from_every_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "b.txt").write_text("line\n" * (PIECE_CHARACTERS // 2))
    write_parquet(tmp_path / "c.parquet", text=list(TEXTS))
    whole = read(tmp_path)
    assert len(whole) == 3 + 3 + 3
    for done, piece in enumerate(whole, 1):
        assert read(tmp_path, start=piece.after) == whole[done:]


def test_share_sends_equal_documents_the_same_way_and_about_as_many_as_asked() -> None:
    rule = ShareSplit(0.25)
    splits = [rule(f"document {number}", None) for number in range(4000)]
    assert splits == [rule(f"document {number}", None) for number in range(4000)]
    assert 0.25 * 4000 - 4 * 27.4 < splits.count("validation") < 0.25 * 4000 + 4 * 27.4  # four standard deviations
    assert {ShareSplit(0)(f"document {number}", None) for number in range(100)} == {"train"}


def test_folders_name_the_splits(tmp_path: Path) -> None:
    for split in ("train", "held-out"):
        (tmp_path / split / "x").mkdir(parents=True)
        (tmp_path / split / "x" / "a.txt").write_text(f"of {split}")
    pieces = read(tmp_path, rule=FolderSplit())
    assert [(piece.split, piece.text) for piece in pieces] == [("held-out", "of held-out"), ("train", "of train")]
    (tmp_path / "loose.txt").write_text("where to?")
    with pytest.raises(ValueError, match=r"loose\.txt: a split by folder needs files in folders beneath the source"):
        read(tmp_path, rule=FolderSplit())


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.jsonl", LINES.encode() + b'{"text": "x"', r"a\.jsonl, line 4 is not valid JSON"),
        (
            "a.jsonl",
            b'\n{"text": "x"}\n{"body": "x"}',
            r"a\.jsonl, line 3 has no field 'text', it has body: name the field that holds the text",
        ),
        ("a.jsonl", b'{"text": null}', r"a\.jsonl, line 1: field 'text' is NoneType, not text"),
        ("a.jsonl", b"[1]", r"a\.jsonl, line 1 is list, not an object with the field 'text'"),
        ("a.jsonl", b"\n" + b"[" * 200_000, r"a\.jsonl, line 2 is nested too deeply"),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "a \\ud800 b"}',
            r"a\.jsonl, line 2: field 'text' holds \\ud800, half of a character",
        ),
        ("a.jsonl", b'{"text": "\xff"}', r"a\.jsonl is not UTF-8 text \(invalid start byte\)"),
        ("a.txt", b"caf\xe9 au lait", r"a\.txt is not UTF-8 text \(invalid continuation byte\)"),
        ("a.txt", "é".encode()[:1], r"a\.txt is not UTF-8 text \(unexpected end of data\)"),
        ("a.txt.gz", b"plain", r"a\.txt\.gz is damaged or cut short"),
        ("a.txt.gz", gzip.compress(b"x" * 1000, mtime=0)[:-9], r"a\.txt\.gz is damaged or cut short"),
        ("a.txt.xz", lzma.compress(b"x" * 1000)[:-9], r"a\.txt\.xz is damaged or cut short"),
        ("a.parquet", b"PAR1 not really PAR1", r"a\.parquet is not a readable Parquet file"),
        ("a.parquet.gz", b"", r"a\.parquet\.gz is a compressed Parquet file: unpack it"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, contents: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_bad_tables_and_sources_are_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", body=["x"], number=[1])
    with pytest.raises(ValueError, match=r"a\.parquet has no field 'text', it has body, number"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"a\.parquet, row 1: field 'number' is int, not text"):
        read(tmp_path, field="number")
    with pytest.raises(FileNotFoundError, match="nowhere is not there: give text"):
        find_files([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no files"):
        find_files([tmp_path / "empty"])
    with pytest.raises(ValueError, match=r"validation share 1.0 must be at least 0 and below 1"):
        ShareSplit(1.0)


def test_a_dataset_is_streamed_by_name_and_from_any_place(tmp_path: Path) -> None:
    long = "line\n" * (PIECE_CHARACTERS // 4)
    lines = "".join(json.dumps({"body": text}) + "\n" for text in [*TEXTS, "", long, TEXTS[0]])
    (tmp_path / "data.jsonl").write_text(lines)
    dataset = DatasetDocuments(str(tmp_path), None, "train", ShareSplit(0), "body")
    whole = list(dataset.pieces())
    assert documents(whole) == [*TEXTS, long, TEXTS[0]]
    assert len(whole) == 6
    for done, piece in enumerate(whole, 1):
        again = list(dataset.pieces(piece.after))
        assert [(piece.text, piece.after) for piece in again] == [(piece.text, piece.after) for piece in whole[done:]]
    with pytest.raises(ValueError, match=r"row 1 has no field 'text', it has body"):
        list(DatasetDocuments(str(tmp_path), None, "train", ShareSplit(0)).pieces())
    with pytest.raises(ValueError, match="split 'tset' cannot be read"):
        list(DatasetDocuments(str(tmp_path), None, "tset", ShareSplit(0), "body").pieces())
