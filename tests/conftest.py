"""Shapes and types are checked against the annotations in every test, where beartype is installed; users never pay for that.

EIGENTRACK_TEST_DEVICE=cuda runs the tests of ops, layers and models on a GPU.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("beartype") is not None:
    from jaxtyping import install_import_hook

    import tests.typechecker  # noqa: F401, the hook looks it up by name

    # of an op's modules those that say what is computed; the kernels and their launches are Triton's
    checked = ("op", "reference", "chunked", "autograd")
    shared = ("chunk_decay", "chunks", "dispatch", "packing", "rotation", "shapes")
    ops = Path(__file__).resolve().parent.parent / "eigentrack" / "ops"
    assert all((ops / "shared" / f"{name}.py").is_file() for name in shared)
    install_import_hook(
        [
            *(f"eigentrack.ops.{path.parent.name}.{path.stem}" for path in ops.glob("*/*.py") if path.stem in checked),
            *(f"eigentrack.ops.shared.{name}" for name in shared),
            *("eigentrack.layers", "eigentrack.models.sequence_model", "eigentrack.tasks"),
        ],
        "tests.typechecker.check",
    )

import torch


@pytest.fixture(autouse=True)
def fresh_start() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # other processes test on the same GPU


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: at the end one process would wait for another."""
    items.sort(key=lambda item: "hold_under_the_interpreter" not in item.name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the kernels take when they are compiled is printed where all is well, too: registers and spills."""
    passed = (report for report in terminalreporter.getreports("passed") if "/test_compile.py::" in report.nodeid)
    lines = [line for report in passed for line in report.capstdout.splitlines() if line]
    if lines:
        terminalreporter.section("compiled for sm_90")
        terminalreporter.write("\n".join([*sorted(lines), ""]))


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)  # tensors are tiny here; threads that wait for one another cost far more than they save
    torch.set_default_device(os.environ.get("EIGENTRACK_TEST_DEVICE", "cpu"))
    if torch.cuda.is_available():  # cases that no kernel takes say so there, once a process
        config.addinivalue_line("filterwarnings", "ignore:.* backend 'triton' .* runs instead:UserWarning")
