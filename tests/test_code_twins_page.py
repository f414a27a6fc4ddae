"""results/code_twins.md is what benchmarks/code_twins.py makes of its JSON, and its answer follows the numbers."""

from __future__ import annotations

import copy
import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def code_twins(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("code_twins")


@pytest.fixture
def record() -> dict[str, Any]:
    return json.loads((ROOT / "results/code_twins.json").read_text())


def test_the_page_is_made_of_its_numbers(code_twins: ModuleType, record: dict[str, Any]) -> None:
    page = code_twins.page(record)
    assert page == (ROOT / "results/code_twins.md").read_text()
    _, question, answer, picture, *_ = page.split("\n\n")
    assert question.endswith("?**")
    assert answer == code_twins.answer(record["results"])
    assert picture.endswith("(code_twins.png)")
    assert re.findall(r"^## (.*)", page, re.M) == ["Tables", "How it was measured"]


def test_the_answer_follows_the_numbers(code_twins: ModuleType, record: dict[str, Any]) -> None:
    results = record["results"]
    answer = code_twins.answer(results)
    swapped = copy.deepcopy(results)
    for result in swapped:
        result["range"] = {"[0, 1]": "[-1, 1]", "[-1, 1]": "[0, 1]"}[result["range"]]
    lower, total = map(int, re.findall(r"In (\d+) of (\d+) comparisons", answer)[0])
    assert code_twins.answer(swapped).startswith(f"In {total - lower} of {total} comparisons")
    assert code_twins.answer([result for result in results if result["range"] == "[0, 1]"]) == ""
