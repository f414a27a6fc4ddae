"""When the Triton kernels run, when they step aside, and what they say then. Needs no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.ops import delta_rule
from eigentrack.ops.cross_entropy.op import CROSS_ENTROPY, summed_cross_entropy
from eigentrack.ops.delta_rule.op import refusal
from eigentrack.ops.shared import dispatch
from eigentrack.ops.shared.dispatch import STEP, Kernel, Op
from eigentrack.ops.short_convolution.op import SHORT_CONVOLUTION, short_convolution
from eigentrack.ops.short_convolution.reference import Part

interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def inputs(dtype: torch.dtype = torch.float32, factors: int = 1, key: int = 4) -> list[Tensor]:
    shapes = [(1, 6, 2, key), (1, 6, 2, factors, key), (1, 6, 2, factors, 3), (1, 6, 2, factors)]
    return [torch.rand(shape, dtype=dtype) for shape in shapes]


@pytest.mark.skipif(torch.cuda.is_available() or interpreted, reason="there the kernel runs")
def test_without_a_gpu_the_chunked_form_runs_and_says_so_once() -> None:
    dispatch._warn_once.cache_clear()
    x = inputs()
    expected = delta_rule(*x, backend="chunked")
    with pytest.warns(
        UserWarning, match="delta_rule: backend 'triton' needs a GPU, and the input is on the cpu; 'chunked' runs"
    ):
        found = delta_rule(*x, backend="triton")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = delta_rule(*x, backend="triton")
        automatic = delta_rule(*x)
    for one in (found, again, automatic):
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(one, expected, strict=True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": torch.float64}, "takes float32 and bfloat16, and q is float64"),
        ({"key": 129}, "takes keys of up to 128 entries, and K=129"),
        ({"factors": 33}, "takes up to 32 factors per token, and n=33"),
        ({}, None),
    ],
)
def test_what_the_delta_rule_kernels_refuse(changed: dict[str, Any], message: str | None) -> None:
    assert refusal(*inputs(**changed), None, initial_state=None) == message


def test_the_delta_rule_kernels_take_a_gate_a_head_only() -> None:
    q, *rest = inputs()
    assert refusal(q, *rest, q[..., 0], initial_state=None) is None
    message = "takes one gate per head, and this gate has an entry for each key channel"
    assert refusal(q, *rest, q, initial_state=None) == message


@pytest.mark.parametrize(("backend", "expected"), [("auto", 1), ("chunked", 0), ("triton", 1)])
def test_a_kernel_runs_only_if_it_may(backend: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)
    calls = []

    def run(x: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        calls.append((x.dtype, given["initial_state"]))
        return x, x

    def chunked(x: Tensor, *, initial_state: Tensor, packing: None) -> tuple[Tensor, Tensor]:
        assert x.dtype == initial_state.dtype == torch.float32
        return x, initial_state

    op = Op("op", {"chunked": chunked}, Kernel(lambda: run, lambda x, **given: None))
    x = torch.ones(1, 2, dtype=torch.bfloat16)
    y, _ = op.run(backend, x, initial_state=None, zero_state=lambda: x * 0, packing=None)
    assert y.dtype == torch.bfloat16
    # the kernel gets the caller's dtype, and None for a state of zeros
    assert calls == [(torch.bfloat16, None)] * expected


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_a_backend_by_name_never_runs_a_kernel(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short convolution and the cross-entropy too, whose kernels would run here by default."""
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)
    loaded: list[str] = []

    def watched(name: str) -> Any:
        def load() -> Any:
            loaded.append(name)
            raise RuntimeError("a kernel")

        return load

    for op in (SHORT_CONVOLUTION, CROSS_ENTROPY):
        monkeypatch.setitem(vars(op.kernel), "load", watched(op.name))
    x, weight, targets = torch.rand(6, 4), torch.rand(5, 4), torch.arange(6) % 5

    def both(backend: str) -> None:
        short_convolution([Part(x[None])], torch.zeros(1, 2, 4), torch.rand(4, 3), backend=backend)
        summed_cross_entropy(x, weight, targets, backend=backend)

    both(backend)
    assert loaded == []
    with pytest.raises(RuntimeError, match="a kernel"):
        both("auto")
    assert loaded == ["short_convolution"]


def fall_back(backend: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """An op whose kernel refuses everything, as on a GPU."""

    def chunked(x: Tensor, *, initial_state: Tensor, packing: None) -> tuple[Tensor, Tensor]:
        return 2 * x, initial_state

    kernel = Kernel(lambda: chunked, lambda x, **given: "takes nothing")
    x, op = torch.ones(1, 2, dtype=dtype), Op("op", {"chunked": chunked, "reference": chunked}, kernel)
    return op.run(backend, x, initial_state=None, zero_state=lambda: x, packing=None)[0]


@pytest.mark.parametrize(("backend", "instead"), [("auto", "chunked"), ("triton", "chunked"), (STEP, "reference")])
def test_a_kernel_that_steps_aside_on_a_gpu_says_so_once(backend: str, instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)
    dispatch._warn_once.cache_clear()
    with pytest.warns(UserWarning, match=f"op: backend 'triton' takes nothing; '{instead}' runs instead"):
        fall_back(backend)
    fall_back(backend)  # a warning would be an error here


def test_who_chose_float64_or_has_no_gpu_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch._warn_once.cache_clear()
    monkeypatch.setattr(dispatch, "no_triton", lambda x: "needs a GPU")
    fall_back("auto")
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)
    fall_back("auto", torch.float64)


@pytest.mark.skipif(torch.cuda.is_available() or interpreted, reason="there the kernel runs")
def test_a_kernel_that_steps_aside_breaks_no_graph() -> None:
    """In a process without the type checks that every test runs under: those break graphs."""
    code = (
        "import torch; from functools import partial; from eigentrack.ops import delta_rule\n"
        "from tests.ops.shared.test_triton_dispatch import inputs\n"
        "x, run = inputs(), partial(delta_rule, backend='triton')\n"
        "found = torch.compile(run, fullgraph=True, backend='eager')(*x)\n"
        "assert torch.equal(found[0], delta_rule(*x, backend='chunked')[0])"
    )
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], check=True)


def test_importing_the_ops_does_not_import_triton() -> None:
    code = "import sys, eigentrack.ops, eigentrack.layers; assert 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
