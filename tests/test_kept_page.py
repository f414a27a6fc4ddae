"""results/kept.md is what benchmarks/kept.py makes of its JSON, and its answer follows the numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("kept")


@pytest.fixture
def record() -> dict[str, Any]:
    return json.loads((ROOT / "results/kept.json").read_text())


def test_the_page_is_made_of_its_numbers(kept: ModuleType, record: dict[str, Any]) -> None:
    assert kept.page(record) == (ROOT / "results/kept.md").read_text()
    index = (ROOT / "results/README.md").read_text()
    assert f"| {kept.QUESTION} | {kept.answer(record['results']).split('. ')[0]}. |" in index
    proved = sum("proof" in result for result in record["results"])
    assert f"{proved} of {len(record['results'])} trained networks" in (ROOT / "README.md").read_text()


def test_the_answer_follows_the_numbers(kept: ModuleType, record: dict[str, Any]) -> None:
    results = [{name: value for name, value in result.items() if name != "proof"} for result in record["results"]]
    assert kept.answer(results).startswith(f"0 of {len(results)} networks")
