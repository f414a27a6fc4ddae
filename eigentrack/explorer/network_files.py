"""Compiling for the page: the network goes into a folder by a worker, and from there to the page and into a zip."""

from __future__ import annotations

import zipfile
from pathlib import Path

from eigentrack.compiler import choose_plan, compile_network, save_compiled
from eigentrack.explorer.language_choice import LanguageChoice
from eigentrack.processes import Line


def compile_into(line: Line, choice: LanguageChoice, architecture: str | None, folder: Path) -> None:
    """For a worker: the smallest network of the architecture, or of all, with its certificate."""
    save_compiled(compile_network(choose_plan(choice.automaton(), architecture)), folder)


def zip_folder(folder: Path) -> Path:
    """Beside the folder, and named like it."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder.parent))
    return target
