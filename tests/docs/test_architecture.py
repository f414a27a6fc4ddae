"""The page on the architecture is true: its files exist, its walks follow imports, its additions touch at most three files."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache

import pytest

from tests.docs.claims import PAGES, ROOT
from tests.docs.code_blocks import code_blocks

PAGE = PAGES["docs/architecture.md"]
BATCH = "eigentrack/models/sequence_model.py"  # where the walk of a batch through DeltaNet begins
MOST_FILES_OF_A_BATCH = 15
ADDITIONS = (
    *("a layer", "an op", "a backend of an op", "a task", "a language"),
    *("an experiment", "a finding", "a command", "a converter", "a verdict"),
)


@dataclass(frozen=True)
class Step:
    """A line of a walk: a file, what is said of it, and the file that calls it (none for the first)."""

    path: str
    said: str
    caller: str | None


def read_walk(text: str) -> list[Step]:
    steps: list[Step] = []
    callers: list[tuple[int, str]] = []  # indentation and path of the files that are still open
    for line in text.splitlines():
        path, _, said = line.strip().partition("#")
        depth = len(line) - len(line.lstrip())
        callers = [(indent, caller) for indent, caller in callers if indent < depth]
        steps.append(Step(path.strip(), said.strip(), callers[-1][1] if callers else None))
        callers.append((depth, path.strip()))
    return steps


WALKS = [read_walk(block.text) for block in code_blocks(PAGE) if block.language == "walk"]
LINKS = list(dict.fromkeys((step.caller, step.path) for walk in WALKS for step in walk if step.caller is not None))


@cache
def imported_files(path: str) -> frozenset[str]:
    """Return the files that a file imports, at its top or in a function; a package stands for what it re-exports."""
    direct = _named_in(path)
    through = {file for package in direct if package.endswith("__init__.py") for file in _named_in(package)}
    return frozenset(direct | through)


def _named_in(path: str) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    candidates = (f"{module.replace('.', '/')}{ending}" for module in modules for ending in (".py", "/__init__.py"))
    return {file for file in candidates if file.startswith("eigentrack/") and (ROOT / file).is_file()}


def test_the_page_has_its_walks() -> None:
    starts = [walk[0].path for walk in WALKS]
    assert starts[:2] == [BATCH, "eigentrack/cli/compile.py"]
    assert "eigentrack/cli/reproduce.py" in starts


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk[0].path)
def test_every_file_of_a_walk_exists_is_explained_and_comes_once(walk: list[Step]) -> None:
    paths = [step.path for step in walk]
    assert len(set(paths)) == len(paths)
    assert [step.path for step in walk if step.caller is None] == paths[:1], "a walk has one start"
    for step in walk:
        assert (ROOT / step.path).is_file(), step.path
        assert step.said, f"{step.path} is not explained"


@pytest.mark.parametrize(("caller", "called"), LINKS)
def test_a_walk_follows_imports(caller: str, called: str) -> None:
    assert called in imported_files(caller), f"{caller} does not import {called}"


def test_a_batch_is_followed_in_few_files() -> None:
    (walk,) = [walk for walk in WALKS if walk[0].path == BATCH]
    assert len(walk) <= MOST_FILES_OF_A_BATCH
    assert any(step.path.endswith("ops/delta_rule/backward.py") for step in walk)


def test_additions_touch_at_most_three_files_that_exist_or_may() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| an? ", line)]
    assert tuple(row[0] for row in rows) == ADDITIONS
    for name, files, what in rows:
        paths = re.findall(r"`([^`]+)`", files)
        assert 1 <= len(paths) <= 3, name
        assert what.strip(), name
        for path in paths:
            before, is_new, _ = path.partition("<name>")
            assert (ROOT / (before.rpartition("/")[0] if is_new else path)).exists(), f"{name}: {path}"


def test_a_walk_is_read_by_its_indentation() -> None:
    steps = read_walk("a.py  # first\n  b.py # second\n    c.py # third\n  d.py # fourth")
    assert [(step.path, step.said, step.caller) for step in steps] == [
        *(("a.py", "first", None), ("b.py", "second", "a.py"), ("c.py", "third", "b.py"), ("d.py", "fourth", "a.py"))
    ]


def test_a_link_that_is_no_import_is_found() -> None:
    assert "eigentrack/cli/compile.py" not in imported_files("eigentrack/compiler/compiled.py")
    assert "eigentrack/ops/delta_rule/op.py" in imported_files("eigentrack/layers/delta_net.py"), "through eigentrack.ops"
    assert "eigentrack/automata/cascade.py" in imported_files("eigentrack/cli/compile.py"), "in a function"
