"""Which sLSTMs the Triton kernels take, who runs otherwise, how they are cut, and that the interpreter agrees. No GPU."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.ops import slstm
from eigentrack.ops.shared import dispatch
from eigentrack.ops.slstm.op import refusal
from tests.ops.test_triton_interpreted import interpreted

on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the tests run on the GPU itself")


def inputs(dtype: torch.dtype = torch.float32, width: int = 4) -> dict[str, Any]:
    state = tuple(torch.rand(1, 2, width, dtype=dtype) for _ in range(4))
    return {"recurrent": torch.rand(2, 4, width, width, dtype=dtype), "initial_state": state}


def gates(dtype: torch.dtype = torch.float32, width: int = 4) -> Tensor:
    return torch.rand(1, 6, 2, 4, width, dtype=dtype)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": torch.float64}, "takes float32, bfloat16 and float16, and gates is float64"),
        ({"width": 65}, "takes heads of up to 64 entries, and D=65"),
        ({"width": 64}, None),
        ({"dtype": torch.bfloat16}, None),
        ({"dtype": torch.float16}, None),
    ],
)
def test_what_the_kernels_refuse(changed: dict[str, Any], message: str | None) -> None:
    assert refusal(gates(**changed), **inputs(**changed)) == message


def test_a_float64_state_is_refused_by_name() -> None:
    given = inputs()
    c, n, h, m = given["initial_state"]
    given["initial_state"] = (c, n.double(), h, m)
    assert refusal(gates(), **given) == "takes float32, bfloat16 and float16, and n is float64"


def test_wrong_bounds_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"cu_seqlens=\[0, 5\] must start at 0 and end at the number of tokens, 6"):
        slstm(gates(), **inputs(), cu_seqlens=torch.tensor([0, 5]))


@on_cpu
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="there the kernel runs")
def test_without_a_gpu_the_reference_runs_and_says_so_once() -> None:
    dispatch._warn_once.cache_clear()
    x, recurrent = gates(), inputs()["recurrent"]
    expected, _ = slstm(x, recurrent=recurrent, backend="reference")
    with pytest.warns(UserWarning, match="slstm: backend 'triton' needs a GPU, and the input is on the cpu; 'reference' runs"):
        found, _ = slstm(x, recurrent=recurrent, backend="triton")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = slstm(x, recurrent=recurrent, backend="triton")
        automatic, _ = slstm(x, recurrent=recurrent)
    assert all(torch.equal(one, expected) for one in (found, again, automatic))


@pytest.mark.parametrize(
    ("sequences", "heads", "block", "programs"),
    [(64, 4, 4, 64), (1, 1, 4, 1), (5, 3, 4, 6), (396, 4, 4, 396), (397, 4, 16, 100), (1024, 4, 16, 256)],
)
def test_many_sequences_are_taken_in_large_blocks(sequences: int, heads: int, block: int, programs: int) -> None:
    plans = pytest.importorskip("eigentrack.ops.slstm.plan")
    plan = plans.SLSTMPlan(sequences, 40, heads, 32, False)
    assert (plan.block, plan.programs) == (block, programs)
    assert plan.settings()["BS"] == block


@pytest.mark.parametrize(("width", "padded", "warps"), [(1, 16, 2), (16, 16, 2), (17, 32, 4), (48, 64, 8), (64, 64, 8)])
def test_heads_are_padded_to_powers_of_two(width: int, padded: int, warps: int) -> None:
    plans = pytest.importorskip("eigentrack.ops.slstm.plan")
    settings = plans.SLSTMPlan(2, 40, 4, width, False).settings()
    assert (settings["BD"], settings["num_warps"]) == (padded, warps)


@on_cpu
def test_the_kernels_hold_under_the_interpreter() -> None:
    pytest.importorskip("triton")
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    report = interpreted("-m", "pytest", "tests/ops/slstm/test_triton.py", *options)
    passed = re.search(r"(\d+) passed", report)
    assert passed is not None, "nothing ran"
    assert int(passed[1]) >= 15


@on_cpu
def test_no_graph_break_under_compile() -> None:
    """In a process without the type checks that every test runs under: those break graphs."""
    pytest.importorskip("triton")
    module = "tests.ops.slstm.test_triton"
    interpreted("-c", f"from {module} import test_no_graph_break_under_compile as test; test()")
