"""The theory page leads from each statement to a function, a test and a page of results, and all of them exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.docs.claims import PAGES, ROOT

PAGE = "docs/theory.md"
FEWEST = 30  # statements on the page
_ITEM = re.compile(r"^- \*(?P<statement>[^*]+)\* In the code: (?P<code>.+?); tested by (?P<tests>.+?); (?P<seen>.+)$")


@dataclass(frozen=True)
class Trace:
    """What embodies, holds and shows one statement."""

    section: str
    statement: str
    functions: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]  # file and name
    pages: tuple[str, ...]  # relative to docs/; none where the statement is "not measured"
    seen: str


def sections(text: str) -> dict[str, str]:
    """Return the numbered sections of the page by their titles."""
    parts = re.split(r"^## (\d+\. .+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def items(section: str) -> Iterator[str]:
    """Yield the list items of a section, each as one line."""
    for item in re.findall(r"^- .+(?:\n  \S.*)*", section, flags=re.MULTILINE):
        yield re.sub(r"\s*\n\s*", " ", item)


def traces(text: str) -> list[Trace]:
    found = []
    for section, body in sections(text).items():
        for item in items(body):
            if match := _ITEM.match(item):
                found.append(
                    Trace(
                        section,
                        match["statement"],
                        tuple(re.findall(r"`(eigentrack(?:\.\w+)+)`", match["code"])),
                        tuple(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", match["tests"])),
                        tuple(re.findall(r"\]\(([\w/]+\.md)\)", match["seen"])),
                        match["seen"],
                    )
                )
            else:
                assert "In the code" not in item, f"section {section}: this line is not understood: {item}"
    return found


@cache
def names_of_tests(path: str) -> frozenset[str]:
    return frozenset(node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef))


def fault(trace: Trace) -> str | None:
    """Return what is wrong with a line, or None."""
    if not trace.functions or not trace.tests:
        return "it names no function, or no test"
    for name in trace.functions:
        module, _, attribute = name.rpartition(".")
        try:
            exists = hasattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError:
            exists = False
        if not exists:
            return f"there is no {name}"
    for path, test in trace.tests:
        if not (ROOT / path).is_file() or test not in names_of_tests(path):
            return f"there is no test {path}::{test}"
    if not trace.pages:
        return None if trace.seen.startswith("not measured") else "it is neither seen in a page nor said to be not measured"
    if not trace.seen.startswith("seen in "):
        return f"{trace.seen!r} does not start with 'seen in'"
    missing = [page for page in trace.pages if not is_page(page)]
    return f"there is no page {missing[0]}" if missing else None


def is_page(page: str) -> bool:
    """Return whether the site has the page: results/ lies beside docs/, and numbers without a page of their own get one."""
    if page.startswith("results/"):
        return (ROOT / page).is_file() or (ROOT / page).with_suffix(".json").is_file()
    return (ROOT / "docs" / page).is_file()


FOUND = traces(PAGES[PAGE].read_text())


@pytest.mark.parametrize("trace", FOUND, ids=lambda trace: trace.statement)
def test_a_statement_leads_to_a_function_a_test_and_a_page(trace: Trace) -> None:
    assert fault(trace) is None


def test_every_section_leads_somewhere() -> None:
    titles = sections(PAGES[PAGE].read_text())
    assert [title.split(".")[0] for title in titles] == [str(number) for number in range(1, len(titles) + 1)]
    assert set(titles) == {trace.section for trace in FOUND}
    assert len(FOUND) >= FEWEST


def test_most_statements_are_seen_in_a_measurement() -> None:
    seen = [trace for trace in FOUND if any(page.startswith("results/") for page in trace.pages)]
    assert len(seen) > len(FOUND) / 2


SOUND = (
    "- *It holds.* In the code: `eigentrack.automata.cascade.cascade`; tested by\n"
    "  `tests/automata/test_cascade.py::test_random_automata`; seen in [ladder](results/ladder.md), in its table."
)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("", "", None),
        ("cascade.cascade`", "cascade.waterfall`", "there is no eigentrack.automata.cascade.waterfall"),
        ("automata.cascade.", "automata.waterfall.", "there is no eigentrack.automata.waterfall.cascade"),
        ("::test_random_automata", "::test_nothing", "there is no test tests/automata/test_cascade.py::test_nothing"),
        ("test_cascade.py", "test_waterfall.py", "there is no test tests/automata/test_waterfall.py::test_random_automata"),
        ("results/ladder.md", "results/stairs.md", "there is no page results/stairs.md"),
        ("[ladder](results/ladder.md)", "ladder", "it is neither seen in a page nor said to be not measured"),
        ("seen in [ladder](results/ladder.md), in", "not measured, but in", None),
        ("`eigentrack.automata.cascade.cascade`", "nothing", "it names no function, or no test"),
    ],
)
def test_a_line_that_leads_nowhere_is_found(was: str, becomes: str, said: str | None) -> None:
    (trace,) = traces("## 1. A section\n\n" + SOUND.replace(was, becomes))
    assert fault(trace) == said


def test_a_line_that_is_not_understood_is_named() -> None:
    with pytest.raises(AssertionError, match="is not understood"):
        traces("## 1. A section\n\n- *It holds.* In the code: `eigentrack.automata.cascade.cascade`.\n")
