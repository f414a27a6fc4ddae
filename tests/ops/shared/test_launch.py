"""Launches that find their compiled kernel by themselves: Triton would have picked the same one. Needs no GPU."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

from eigentrack.ops.delta_rule import launch as delta_rule_launch
from eigentrack.ops.delta_rule.backward import gates_kernel, gradients_kernel, walk_back_kernel
from eigentrack.ops.delta_rule.forward import prepare_kernel, walk_kernel
from eigentrack.ops.delta_rule.short import short_backward_kernel, short_forward_kernel
from eigentrack.ops.delta_rule.step import step_kernel
from eigentrack.ops.gated_linear import launch as gated_linear_launch
from eigentrack.ops.gated_linear import plan as gated_linear_plan
from eigentrack.ops.selective_scan import launch as selective_scan_launch
from eigentrack.ops.selective_scan import plan as selective_scan_plan
from eigentrack.ops.shared.launch import launch, launch_key

KERNELS = [
    *(prepare_kernel, walk_kernel, walk_back_kernel, gradients_kernel, gates_kernel),
    *(short_forward_kernel, short_backward_kernel, step_kernel),
]
MEMORY = torch.zeros(256)


class Compiled:
    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *values: self.launches.append((grid, values))


class Kernel:
    """Stands for a function of Triton with the arguments x, count and the constants A, B; keeps what it is asked for."""

    __name__ = "kernel"
    arg_names = ("x", "count", "A", "B")

    def __init__(self, interprets: bool = False) -> None:
        self.interprets = interprets
        self.asked: list[tuple[Any, ...]] = []
        self.compiled = Compiled()

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*values: Any, **named: Any) -> Compiled | None:
            self.asked.append((grid, values, named))
            return None if self.interprets else self.compiled

        return run


def test_triton_is_asked_once() -> None:
    kernel, compiled, x = Kernel(), {}, MEMORY
    for programs in (5, 7):
        launch(compiled, kernel, programs, (x, 3), lambda: {"B": 2, "A": 1, "num_warps": 4})
    assert kernel.asked == [((5,), (x, 3), {"B": 2, "A": 1, "num_warps": 4})]
    # the constants in the order of the signature, without the options of the compiler
    assert kernel.compiled.launches == [((7, 1, 1), (x, 3, 1, 2))]


def test_the_interpreter_is_asked_every_time() -> None:
    kernel = Kernel(interprets=True)
    compiled: dict[Any, Any] = {}
    for _ in range(2):
        launch(compiled, kernel, 5, (MEMORY, 3), lambda: {"A": 1, "B": 2})
    assert len(kernel.asked) == 2


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_constants_come_behind_the_arguments(kernel: Any) -> None:
    constant = [parameter.is_constexpr for parameter in kernel.params]
    assert constant == sorted(constant)
    assert not any(parameter.has_default for parameter in kernel.params)


def tensors() -> st.SearchStrategy[Tensor]:
    dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.int64])
    return st.builds(lambda dtype, first: MEMORY.view(dtype)[first:], dtypes, st.integers(0, 20))


def kernel_of_three(x, y, size):  # type: ignore[no-untyped-def]
    """Its signature alone counts."""


JITTED = triton.jit(kernel_of_three)
bind = create_function_from_signature(JITTED.signature, JITTED.params, make_backend(GPUTarget("cuda", 90, 32)))


@given(tensors(), tensors(), st.none() | tensors(), st.none() | tensors(), st.sampled_from([1, 2, 16, 40, 2**31]))
def test_two_calls_share_a_kernel_where_they_do_for_triton(
    x: Tensor, other_x: Tensor, y: Tensor | None, other_y: Tensor | None, size: int
) -> None:
    one, other = (x, y, size), (other_x, other_y, size)
    same = bind(*one)[1] == bind(*other)[1]
    assert (launch_key(JITTED, one) == launch_key(JITTED, other)) == same


@pytest.mark.parametrize("other", [2, 16, 2**31, None])
def test_numbers_are_told_apart(other: int | None) -> None:
    assert launch_key(JITTED, (MEMORY, None, 1)) != launch_key(JITTED, (MEMORY, None, other))


def inputs(time: int, dim: int, gated: bool, carried: bool, dtype: torch.dtype) -> delta_rule_launch.Inputs:
    def normal(*size: int) -> Tensor:
        return torch.randn(2, time, 2, *size, dtype=dtype)

    gate = torch.rand(2, time, 2) if gated else None
    state = torch.randn(2, 2, dim, dim) if carried else None
    return delta_rule_launch.Inputs(normal(dim), normal(1, dim), normal(1, dim), normal(1), gate, state, None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kernels that were launched. What a launch is asked for must follow from its plan, its variant, and which arguments
    are there: the constants are not looked at again."""
    constants_of: dict[Any, dict[str, Any]] = {}
    names_asked: set[str] = set()

    def check(
        compiled: Any, kernel: Any, programs: int, arguments: tuple[Any, ...], constants: Any, variant: bool = False
    ) -> None:
        named = constants()
        assert constants_of.setdefault((id(compiled), variant, launch_key(kernel, arguments)), named) == named
        names = [parameter.name for parameter in kernel.params if parameter.is_constexpr]
        assert set(named) - {"num_warps", "num_stages"} == set(names)
        assert len(arguments) == len(kernel.params) - len(names)
        names_asked.add(kernel.__name__)

    for launches in (delta_rule_launch, gated_linear_launch, selective_scan_launch):
        monkeypatch.setattr(launches, "launch", check)
        monkeypatch.setattr(launches, "compile_together", lambda what, passes: None)
    return names_asked


def test_constants_of_the_delta_rule(asked: set[str]) -> None:
    """Calls of one plan that differ in initial states and in gradients of the last ones; both are asked for their constants."""
    for time, dim in ((1, 16), (20, 16), (40, 16), (40, 128), (100, 16)):
        for gated in (False, True):
            for carried in (False, True, False):
                given_inputs = inputs(time, dim, gated, carried, torch.bfloat16)
                delta_rule_launch.forward(given_inputs, save=False)
                out, saved = delta_rule_launch.forward(given_inputs, save=True)
                for last in (None, out.last_state):
                    delta_rule_launch.backward(given_inputs, saved, (out.y, last))
    assert asked == {kernel.__name__ for kernel in KERNELS}


def test_constants_of_gated_linear_attention(asked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_linear_plan, "SHORTEST_SEGMENT", 2)  # so that 600 tokens are walked in segments
    for time, channel, carried in product((1, 20, 100, 600), (False, True), (False, True, False)):
        q = torch.randn(1, time, 1, 16, dtype=torch.bfloat16)
        gate = torch.rand(1, time, 1, *([16] if channel else []))
        state = torch.randn(1, 1, 16, 16) if carried else None
        given_inputs = gated_linear_launch.Inputs(q, q, q, gate, state, None)
        gated_linear_launch.forward(given_inputs, save=False)
        out, saved = gated_linear_launch.forward(given_inputs, save=True)
        for last in (None, out.last_state):
            gated_linear_launch.backward(given_inputs, saved, (out.y, last))
    short, long = (
        {"step_kernel", "short_forward_kernel", "short_backward_kernel"},
        {"walk_kernel", "carry_kernel", "output_kernel"},
    )
    assert asked == short | long | {"scores_kernel", "gradients_kernel", "pairs_kernel", "channel_gradients_kernel"}


def test_constants_of_the_selective_scan(asked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selective_scan_plan, "SMALLEST_SUMS", 1)  # so that the longest has several windows
    monkeypatch.setattr(selective_scan_plan, "_kept", selective_scan_plan.SelectiveScanPlan)
    for time, gated, carried in product((1, 20, 2000), (False, True), (False, True, False)):
        x, b = torch.randn(1, time, 32), torch.randn(1, time, 16)
        options = (x, torch.randn(32, 16), torch.randn(32)) if gated else (None, torch.randn(32, 16), None)
        state = torch.randn(1, 32, 16) if carried else None
        given_inputs = selective_scan_launch.Inputs(x, x, b, b, *options, state, None, -1.0, 1.0)
        selective_scan_launch.forward(given_inputs, save=False)
        out, saved = selective_scan_launch.forward(given_inputs, save=True)
        for last in (None, out.last_state):
            selective_scan_launch.backward(given_inputs, saved, (out.y, last))
    summaries = {"summary_kernel", "summary_back_kernel", "join_kernel"}
    assert asked == summaries | {"step_kernel", "forward_kernel", "backward_kernel", "sum_kernel"}


def test_a_plan_is_made_once_for_all_calls_of_its_sizes() -> None:
    one, other = (inputs(40, 16, False, False, torch.bfloat16) for _ in range(2))
    assert one.plan(save=True) is other.plan(save=True)
    assert one.plan(save=True) != one.plan(save=False)
    assert one._replace(q=one.q.float()).plan(save=True) != one.plan(save=True)
    assert one.plan_of_symbols(save=True) == one.plan(save=True)
