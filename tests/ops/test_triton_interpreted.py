"""The Triton kernels without a GPU: their tests again, in a process where Triton interprets what it would compile."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")


pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the tests run on the GPU itself")


def interpreted(*command: str) -> str:
    run = subprocess.run([sys.executable, *command], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout


@pytest.mark.parametrize(
    "files",
    [("delta_rule/test_triton", "delta_rule/test_triton_in_torch"), ("short_convolution/test_triton",)],
    ids=lambda files: files[0],
)
def test_the_kernels_hold_under_the_interpreter(files: tuple[str, ...]) -> None:
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    paths = [f"tests/ops/{file}.py" for file in files]
    passed = re.search(r"(\d+) passed", interpreted("-m", "pytest", *paths, *options))
    assert passed is not None, "nothing ran"
    assert int(passed[1]) >= 20


def test_no_graph_break_under_compile() -> None:
    """In a process without the type checks that every test runs under: those break graphs."""
    module = "tests.ops.delta_rule.test_triton_in_torch"
    calls = "no_break(20); no_break(70); test_one_compilation_takes_many_lengths()"
    interpreted("-c", f"from {module} import *; no_break = test_no_graph_break_under_compile; {calls}")


def test_no_graph_break_in_a_convolution_under_compile() -> None:
    module = "tests.ops.short_convolution.test_triton"
    interpreted("-c", f"from {module} import test_no_graph_break_under_compile as test; test()")


def test_every_kernel_refuses_second_derivatives() -> None:
    interpreted("-c", "from tests.ops.test_second_derivatives import test_every_kernel_refuses as test; test()")
