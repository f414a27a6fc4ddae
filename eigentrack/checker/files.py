"""The files of a compiled network: JSON in which no key comes twice, and weights in the safetensors format.

safetensors: 8 bytes n (a little-endian whole number), n bytes of JSON {name: {"dtype", "shape", "data_offsets": [begin, end]}},
then the data; the offsets count from the end of the JSON, and numbers are little-endian, row by row.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

Number = int | Fraction  # whole numbers are always of the type int

# the types in which a compiled network may be stored: our name, the bytes of a number, and its letter for `struct`
STORED = {"F64": ("float64", 8, "d"), "F32": ("float32", 4, "f"), "F16": ("float16", 2, "e"), "BF16": ("bfloat16", 2, "H")}
LONGEST_HEADER = 100_000_000  # bytes, as in the format's own description


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file, with its numbers as exact values."""

    kind: str  # the name of its float type
    shape: tuple[int, ...]
    values: tuple[Number, ...]  # row by row
    data: bytes  # the bytes as they stand in the file


def exact(value: float) -> Number:
    """Return a finite float as the number that it is."""
    return int(value) if value == int(value) else Fraction(value)


def check_files_are_inside(folder: Path) -> None:
    """Raise ValueError if a file in `folder`, or in a folder of it, is a link that leads outside."""
    home = folder.resolve()
    for path in [*folder.iterdir(), *folder.glob("*/*")]:
        if not path.resolve().is_relative_to(home):
            raise ValueError(f"{path} leads outside of {folder}: copy the file into it")


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; raise ValueError if the file at `path` is not valid or repeats a key."""
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: this is no folder of a compiled network") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of the safetensors file at `path` by name; raise ValueError if the file is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: this is no folder of a compiled network") from None
    try:
        return _tensors(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no file of weights that this checker can read: {error}") from None


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} comes twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _tensors(content: bytes) -> dict[str, Tensor]:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, LONGEST_HEADER):
        raise ValueError("it is cut short")
    header, data = _parsed(content[8 : 8 + length].decode("utf-8")), content[8 + length :]
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    places = sorted((_offsets(name, entry) for name, entry in header.items()), key=lambda place: place[0])
    if [begin for begin, _ in places] + [len(data)] != [0] + [end for _, end in places]:
        raise ValueError("its tensors do not fill the data one after another")
    return {name: _tensor(name, entry, data) for name, entry in header.items()}


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)) or offsets[0] > offsets[1]:
        raise ValueError(f"{name!r} has no data_offsets")
    return offsets[0], offsets[1]


def _tensor(name: str, entry: dict[str, Any], data: bytes) -> Tensor:
    if entry.get("dtype") not in STORED:
        raise ValueError(f"{name!r} is stored as {entry.get('dtype')!r}; known are {', '.join(STORED)}")
    kind, size, letter = STORED[entry["dtype"]]
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(map(is_count, shape)):
        raise ValueError(f"{name!r} has no shape")
    begin, end = entry["data_offsets"]
    if math.prod(shape) * size != end - begin:
        raise ValueError(f"{name!r} has {end - begin} bytes for the shape {shape}")
    read = struct.unpack(f"<{math.prod(shape)}{letter}", data[begin:end])
    if kind == "bfloat16":  # the upper half of a float32
        read = struct.unpack(f"<{len(read)}f", b"".join(struct.pack("<I", bits << 16) for bits in read))
    if not all(map(math.isfinite, read)):
        raise ValueError(f"{name!r} has an entry that is no finite number")
    return Tensor(kind, tuple(shape), tuple(map(exact, read)), data[begin:end])


def is_count(value: Any) -> bool:
    """Return whether a value of a JSON file is a whole number that is not negative; True and False are no numbers."""
    return type(value) is int and value >= 0
