"""Files and names of the package that a page mentions exist."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.claims import PAGES, ROOT

FILE = re.compile(r"`([\w./-]+\.(?:py|md|json|jsonl|toml|yml|yaml|txt|tgz|png|html))`")
NAME = re.compile(r"`(eigentrack(?:\.\w+)+)`")
# what commands write, and configurations that pages show
WRITTEN = {
    *("automaton.json", "plan.json", "certificate.json", "run.json", "run.yaml", "metrics.jsonl"),
    *("demo.json", "demo.png", "inspection.html", "inspection.json"),
}


@cache
def files() -> tuple[str, ...]:
    """Return the sources, tests and pages, each with a slash before its path."""
    folders = ("eigentrack", "tests", "benchmarks", "docs", "results", "log")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.*")] + list(ROOT.glob("*.*"))
    return tuple(f"/{path.relative_to(ROOT)}" for path in found)


def missing_files(text: str) -> list[str]:
    """Return the files that a text names and that are neither in the repository nor written by a command.

    A page may leave out the first folders of a path that it has just named, as in `shared/tiles.py`.
    """
    named = set(FILE.findall(text))
    return sorted(name for name in named if Path(name).name not in WRITTEN and not any(f.endswith(f"/{name}") for f in files()))


def missing_names(text: str) -> list[str]:
    return sorted(name for name in set(NAME.findall(text)) if not exists(name))


def exists(name: str) -> bool:
    """Return whether a dotted name is a module, or something in one."""
    module, _, attribute = name.rpartition(".")
    for candidate, wanted in ((name, ""), (module, attribute)):
        try:
            found = importlib.import_module(candidate)
        except ModuleNotFoundError:
            continue
        if not wanted or hasattr(found, wanted):
            return True
    return False


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    text = PAGES[page].read_text()
    assert missing_files(text) == []
    assert missing_names(text) == []


def test_what_does_not_exist_is_found() -> None:
    text = "`LOG.md`, `tests/kernels/test_all.py`, `shared/tiles.py`, `out/run.json`"
    text += ", `eigentrack.layers.scheduled`, `eigentrack.waterfall`"
    assert missing_files(text) == ["LOG.md", "tests/kernels/test_all.py"]
    assert missing_names(text) == ["eigentrack.waterfall"]
