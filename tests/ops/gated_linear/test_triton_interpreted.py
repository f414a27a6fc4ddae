"""Triton's gated linear attention without a GPU: its tests again, where Triton interprets what it would compile."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("triton")

from tests.ops.test_triton_interpreted import interpreted
from tests.ops.test_triton_interpreted import pytestmark as pytestmark  # not where there is a GPU


def test_the_kernels_hold_under_the_interpreter() -> None:
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    out = interpreted("-m", "pytest", "tests/ops/gated_linear/test_triton.py", *options)
    passed = re.search(r"(\d+) passed", out)
    assert passed is not None, "nothing ran"
    assert int(passed[1]) >= 30


def test_no_graph_break_under_compile() -> None:
    """In a process without the type checks that every test runs under: those break graphs."""
    module = "tests.ops.gated_linear.test_triton"
    calls = "no_break(20); no_break(70); test_one_compilation_takes_many_lengths()"
    interpreted("-c", f"from {module} import *; no_break = test_no_graph_break_under_compile; {calls}")
