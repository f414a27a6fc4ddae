"""What the runner of GPU tests makes of tests that pass, fail, are skipped, or take their process with them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests import on_gpu

TESTS = """
import os, pytest
def test_good(): pass
@pytest.mark.parametrize("x", [1, 2])
def test_half(x): assert x == 1
def test_missing(): pytest.skip("no such card")
"""


def test_outcomes_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    names = [f"{file}::{name}" for name in ("test_good", "test_half[1]", "test_half[2]", "test_missing")]
    found = on_gpu.run_chunk(names, time.time() + 60)
    assert [found[name][0] for name in names] == ["passed", "passed", "failed", "skipped"]
    assert "no such card" in found[names[3]][1]
    assert on_gpu.run_chunk(names, time.time() - 1) == dict.fromkeys(names, ("not reached", ""))


def test_outcomes_go_by_name_not_by_place(tmp_path: Path) -> None:
    """pytest puts together what shares a fixture of the module."""
    file = tmp_path / "test_order.py"
    file.write_text(
        "import pytest\n@pytest.fixture(scope='module', params=[1, 2])\ndef x(request): return request.param\n"
        "def test_a(x): assert x == 1\ndef test_b(x): pass\n"
    )
    names = [f"{file}::{name}" for name in ("test_a[1]", "test_a[2]", "test_b[1]", "test_b[2]")]
    found = on_gpu.run_chunk(names, time.time() + 60)
    assert [found[name][0] for name in names] == ["passed", "failed", "passed", "passed"]


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path) -> None:
    good, bad = tmp_path / "test_good.py", tmp_path / "test_bad.py"
    good.write_text("def test_one(): pass\n")
    bad.write_text("import no_such_module\n")
    with pytest.raises(SystemExit, match="no_such_module"):
        on_gpu.collected([str(good), str(bad)])


def test_a_process_that_ends_is_told(tmp_path: Path) -> None:
    file = tmp_path / "test_deadly.py"
    file.write_text("import os\ndef test_one(): pass\ndef test_two(): os._exit(3)\n")
    names = [f"{file}::{name}" for name in ("test_one", "test_two")]
    assert {word for word, _ in on_gpu.run_chunk(names, time.time() + 60).values()} == {"crashed"}


@pytest.mark.parametrize("count", [1, 8, 9, 30])
def test_chunks_are_all_tests(count: int) -> None:
    tests = {"a": [f"a::{i}" for i in range(count)], "b": ["b::0"]}
    pieces = on_gpu.chunks(tests)
    assert sorted(name for piece in pieces for name in piece) == sorted(tests["a"] + tests["b"])
    assert max(map(len, pieces)) <= on_gpu.CHUNK


def test_the_files_are_there() -> None:
    assert len(on_gpu.FILES) > 10
    assert all((on_gpu.ROOT / file).exists() for file in on_gpu.FILES)
