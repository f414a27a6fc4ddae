"""The options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read, and nothing else.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
TextField = Annotated[str, typer.Option(help="Where a row of JSONL, Parquet or a dataset holds its text.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier output of this command, or write beside other files.")
]
CHOOSE_FIELD = "choose with --text-field"  # the remedy in errors about a text field

EIGENVALUES = "--eigenvalues"
NUMBERS_AFTER = {"annulus": 2, "disk": 1, "polygon": 1}  # after a first number comes one more
PATHS = ("--out", "-o", "--config", "--dfa", "--corpus", "--archive", "--tokenizer", "--draw", "--text")


def check_device(device: str) -> None:
    """Raise if no tensor can be made on the device."""
    import torch

    try:
        usable = not torch.empty(1, device=device).is_meta  # a meta tensor holds no numbers
    except (RuntimeError, AssertionError):
        usable = False
    if not usable:
        raise ValueError(f"--device {device}: torch finds no such device on this machine; --device cpu always works")


def refuse_both(resume: bool, overwrite: bool) -> None:
    if resume and overwrite:
        raise ValueError("--resume goes on with the run in --out, --overwrite replaces it: give one of them")


def check_folder(flag: str, folder: Path) -> None:
    """Raise if a file is where the folder should be."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{flag} {folder} is a file: name a folder")


def named_values(flag: str, given: list[str] | None) -> dict[str, object]:
    """Read name=value pairs; a value is JSON where it can be, else text."""
    options: dict[str, object] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{flag} {text!r} must be written name=value")
        if name in options:
            raise ValueError(f"{flag} {name} is given twice")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def refuse_empty_paths(arguments: Sequence[str]) -> None:
    """Raise if an option that takes a path is given '', which would mean the current folder."""
    for option, value in pairwise(arguments):
        if option in PATHS and not value:
            raise ValueError(f"{option} '' is empty: name a file or a folder")


def join_eigenvalues(arguments: Sequence[str]) -> list[str]:
    """Join --eigenvalues with the numbers that belong to it: people type -1 1, annulus 0.5 1 or polygon 5, in several words."""
    joined, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word == EIGENVALUES and rest:
            parts = [rest.pop(0)]
            most = NUMBERS_AFTER.get(parts[0], 1 if _is_number(parts[0]) else 0)
            while rest and len(parts) <= most and _is_number(rest[0]):
                parts.append(rest.pop(0))
            word = f"{EIGENVALUES}={' '.join(parts)}"
        joined.append(word)
    return joined


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
