"""Pages run in a folder of their own, on a wide terminal; what they register is forgotten."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigentrack.layers import MIXERS
from eigentrack.lm.presets import PRESETS
from eigentrack.tasks.registry import TASKS
from tests.docs.cut import cut_presets


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    before = [(table, copy.deepcopy(table)) for table in (MIXERS, TASKS, PRESETS)]
    cut_presets()
    yield
    for table, was in before:
        table.clear()
        table.update(was)
