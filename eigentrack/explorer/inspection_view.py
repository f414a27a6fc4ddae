"""The view of trained or compiled weights: the page that `eigentrack inspect` writes, in a frame."""

from __future__ import annotations

from html import escape
from pathlib import Path

from eigentrack.analysis import inspect_network, load_inspected
from eigentrack.analysis.page import render
from eigentrack.experiments.running.provenance import provenance
from eigentrack.explorer.language_choice import LanguageChoice
from eigentrack.explorer.markup import sheet
from eigentrack.explorer.session import NETWORK, Session
from eigentrack.explorer.training_choice import RANGES, named_task
from eigentrack.processes import Line

COMPILED, FOLDER = "the compiled network", "a folder on this computer"
ITS_OWN = "the task that the folder names"  # the task
TWINS = {f"the trained twin {name}": name for name in RANGES}


def folder_of(session: Session, source: str, path: str) -> Path:
    """Return the folder that the source names; `path` is read if the source is FOLDER."""
    if source == FOLDER:
        if not path.strip():
            raise ValueError("type the path of a folder: a run, a saved model or a compiled network")
        return Path(path.strip()).expanduser()
    if source == COMPILED:
        if session.network is None:
            raise ValueError("no network was compiled on this page yet: the room Compile does it")
        return session.folder / NETWORK
    folder = None if session.training is None else session.training.folder(TWINS[source])
    if folder is None or not folder.exists():
        raise ValueError(f"{source} does not exist yet: the room Train makes it")
    return folder


def inspect_folder(
    line: Line, folder: Path, name: str, longest: int, task: str = ITS_OWN, language: LanguageChoice | None = None
) -> str:
    """Return the page as HTML, in a worker, and report what is looked at with the share that is done."""
    chosen, options = (None, {}) if task == ITS_OWN else named_task(task, language)

    def progress(what: str, done: int, total: int) -> None:
        line.report((what, done / total))

    found = inspect_network(load_inspected(folder, chosen, options, "cpu"), longest=longest, seed=0, progress=progress)
    return render(found, name, provenance())


def show_inspection(page: str) -> str:
    return sheet(f"<iframe title='inspection' sandbox='' srcdoc=\"{escape(page)}\"></iframe>")
