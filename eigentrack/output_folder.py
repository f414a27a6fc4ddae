"""Output folders: whose output a folder holds, and the refusal to write into one that holds something else.

A command claims its folder before it works. It gets a folder that is missing or empty, or that holds what the same command
wrote with the same settings; the folder's record, .eigentrack.json, says which. While it works, no other process gets it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.files import clear_unfinished, only_process_in, remove, write_json
from eigentrack.json_text import parse_json

RECORD = ".eigentrack.json"  # settings by kind of output
MOST_NAMED = 3  # the most files that an error message names


@dataclass(frozen=True)
class Output:
    """The output of a command in a folder."""

    kind: str  # such as "compiled network"
    # patterns of the names of its files and folders, in the order in which they are deleted: first what makes it complete
    entries: tuple[str, ...]
    settings: Any = None  # in JSON, what determines it; None: the output has a record of its own, as a run has run.json

    def entries_in(self, folder: Path) -> list[Path]:
        return list(dict.fromkeys(path for pattern in self.entries for path in sorted(folder.glob(pattern))))


@contextmanager
def claimed(
    folder: Path, output: Output, *, known: bool = False, guest: bool = False, overwrite: bool = False, flag: str = "--out"
) -> Iterator[None]:
    """Create and lock the folder for one output, or raise if it holds something else; nothing is changed then.

    Args:
        folder: the folder to write into.
        output: what will be written.
        known: whether the caller has found its own output in the folder, by a record of its own.
        guest: whether the output lies beside something else, as an inspection does beside the run that it is about.
        overwrite: whether to delete what the folder holds of such an output; other files in it stay.
        flag: the option that names the folder, for error messages.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{flag} {folder} is a file: name a folder")
    if not (known or overwrite):
        _check(folder, output, guest, flag)  # before the lock, which is a file
    with only_process_in(folder):
        if not (known or overwrite):
            _check(folder, output, guest, flag)
        clear_unfinished(folder)
        records = _records(folder)
        if overwrite:
            for path in output.entries_in(folder):
                remove(path)
        if output.settings is not None:
            kept = {} if overwrite and not guest else records
            write_json(folder / RECORD, {**kept, output.kind: output.settings})
        try:
            yield
        except BaseException:
            if output.settings is not None and not output.entries_in(folder) and list(_visible(folder)) == []:
                remove(folder / RECORD)
            raise


def _check(folder: Path, output: Output, guest: bool, flag: str) -> None:
    """Raise ValueError if the folder holds something else than this output."""
    found = output.entries_in(folder) if guest else list(_visible(folder))
    records = _records(folder)
    remedy = f"name another folder with {flag}, or add --overwrite to replace it"
    if output.kind in records:
        wanted = json.loads(json.dumps(output.settings))
        if found and records[output.kind] != wanted:
            before = _difference(records[output.kind], wanted)
            raise ValueError(f"{folder} already holds a {output.kind} with other settings{before}: {remedy}")
    elif records and not guest:
        raise ValueError(f"{folder} already holds a {next(iter(records))}: {remedy}")
    elif found:
        names = ", ".join(path.name for path in found[:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
        raise ValueError(f"{folder} already holds something else ({names}): {remedy}")


def _difference(before: Any, now: Any) -> str:
    """Return the first setting that differs, if it is short enough for a message."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in now:
            if before.get(name) != now[name]:
                said = f" ({name} was {json.dumps(before.get(name))}, is {json.dumps(now[name])} now)"
                return said if len(said) < 100 else f" (another {name})"
    return ""


def _visible(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*")) if not path.name.startswith("."))


def _records(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    if not path.exists():
        return {}
    try:
        records = parse_json(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}; name another folder, or delete this file") from None
    if not isinstance(records, dict):
        raise ValueError(f"{path} must hold an object: name another folder, or delete this file")
    return records
