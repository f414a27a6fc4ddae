"""An op's kernels, compiled all at once before its first launch: the same ones that the launches then ask for. Needs no GPU."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Barrier, Lock, Thread, current_thread
from time import sleep
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from eigentrack.ops.delta_rule import launch as delta_rule_launch
from eigentrack.ops.gated_linear import launch as gated_linear_launch
from eigentrack.ops.selective_scan import launch as selective_scan_launch
from eigentrack.ops.selective_scan import plan as selective_scan_plan
from eigentrack.ops.shared import launch as together


class H200:
    """As much of a driver as it takes to compile for the card."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[tuple[str, bool]]:
    """Which kernels were launched, and whether they were compiled by then."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(together, "_seen", set())
    names: list[tuple[str, bool]] = []
    run = JITFunction.run

    def watch(kernel: Any, *values: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if warmup:
            return run(kernel, *values, grid=grid, warmup=True, **named)
        before = len(kernel.device_caches[0][0])
        run(kernel, *values, grid=grid, warmup=True, **named)
        names.append((kernel.__name__, len(kernel.device_caches[0][0]) == before))
        return None

    monkeypatch.setattr(JITFunction, "run", watch)
    monkeypatch.setattr(driver, "_active", H200())
    return names


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.rand(shape, dtype=dtype)


def test_delta_rule(launched: list[tuple[str, bool]]) -> None:
    q, k, beta, gate = random(1, 80, 1, 16), random(1, 80, 1, 1, 16), random(1, 80, 1, 1), random(1, 80, 1)
    inputs = delta_rule_launch.Inputs(q, k, k, beta, gate, random(1, 1, 16, 16, dtype=torch.float32), None)
    out, saved = delta_rule_launch.forward(inputs, save=True)
    delta_rule_launch.backward(inputs, saved, out)
    names = ["prepare_kernel", "walk_kernel", "walk_back_kernel", "gradients_kernel", "gates_kernel"]
    assert launched == [(name, True) for name in names]


@pytest.mark.parametrize("differentiated", [False, True])
def test_gated_linear(launched: list[tuple[str, bool]], differentiated: bool) -> None:
    q = random(1, 20, 1, 16)
    inputs = gated_linear_launch.Inputs(q, q, q, random(1, 20, 1), None, None)
    out, saved = gated_linear_launch.forward(inputs, differentiated)
    gated_linear_launch.backward(inputs, saved, (out.y, None))
    # a backward pass that nobody spoke of is compiled when it comes
    assert launched == [("short_forward_kernel", True), ("short_backward_kernel", differentiated)]


def test_selective_scan(launched: list[tuple[str, bool]]) -> None:
    x, b = random(1, 20, 32), random(1, 20, 16)
    inputs = selective_scan_launch.Inputs(x, x, b, b, None, random(32, 16, dtype=torch.float32), None, None, None, -1.0, 1.0)
    out, saved = selective_scan_launch.forward(inputs, save=True)
    assert saved.checkpoints is not None
    selective_scan_launch.forward(inputs, save=False)  # an evaluation between
    selective_scan_launch.backward(inputs, saved, (out.y, None))
    assert launched == [(name, True) for name in ("forward_kernel", "forward_kernel", "backward_kernel", "sum_kernel")]


@pytest.mark.parametrize(("many", "channels"), [(1024, 96), (8192, 24)])
def test_scans_that_differ_in_their_programs_are_told_apart(launched: list[tuple[str, bool]], many: int, channels: int) -> None:
    """Three blocks of channels a program or one, slots or none: each is compiled by its first call."""
    for batch in (many, 4):
        x, b = random(batch, 17, channels), random(batch, 17, 16)
        inputs = selective_scan_launch.Inputs(
            x, x, b, b, None, random(channels, 16, dtype=torch.float32), None, None, None, -1.0, 1.0
        )
        out, saved = selective_scan_launch.forward(inputs, save=True)
        assert saved.checkpoints is not None
        selective_scan_launch.backward(inputs, saved, (out.y, None))
    assert launched == 2 * [(name, True) for name in ("forward_kernel", "backward_kernel", "sum_kernel")]


def test_a_scan_in_windows(launched: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several launches of one kernel each; what the first call compiles is all of them."""
    monkeypatch.setattr(selective_scan_plan, "SMALLEST_SUMS", 1)
    monkeypatch.setattr(selective_scan_plan, "_kept", lru_cache(selective_scan_plan.SelectiveScanPlan))
    x, b = random(1, 600, 1024), random(1, 600, 16)
    inputs = selective_scan_launch.Inputs(x, x, b, b, None, random(1024, 16, dtype=torch.float32), None, None, None, -1.0, 1.0)
    out, saved = selective_scan_launch.forward(inputs, save=True)
    assert saved.checkpoints is not None
    plan = inputs.plan(save=True)
    assert plan.windows.count == 2
    assert plan.chunk == selective_scan_plan.FAR
    selective_scan_launch.backward(inputs, saved, (out.y, None))
    assert all(was_compiled for _, was_compiled in launched)
    assert [name for name, _ in launched].count("backward_kernel") == plan.windows.count


def test_what_goes_wrong_is_left_to_the_launch(launched: list[tuple[str, bool]]) -> None:
    def passes() -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    together.compile_together("wrong", passes)
    assert not together.only_compiles()


def test_a_kind_is_compiled_once(launched: list[tuple[str, bool]]) -> None:
    calls = []
    for what in ("this", "this", "that"):
        together.compile_together(what, lambda: calls.append(together.only_compiles()))
    assert calls == [True, True]
    assert not together.only_compiles()


def test_functions_are_parsed_one_by_one(launched: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    parse, busy, found = JITFunction.parse, Lock(), []

    def slowly(function: Any) -> Any:
        found.append(busy.acquire(blocking=False))
        sleep(0.02)  # long enough for another thread to come in between
        tree = parse(function)
        if found[-1]:
            busy.release()
        return tree

    monkeypatch.setattr(JITFunction, "parse", slowly)
    x, b = random(1, 20, 24), random(1, 20, 8)
    inputs = selective_scan_launch.Inputs(x, x, b, b, None, random(24, 8, dtype=torch.float32), None, None, None, -1.0, 1.0)
    selective_scan_launch.forward(inputs, save=True)
    assert JITFunction.parse is slowly
    assert len(found) > 10
    assert all(found)


class Loaded:
    """Stands for a compiled kernel; keeps what was done with it, and in which thread."""

    def __init__(self, name: str, done: list[tuple[str, str, Thread]]) -> None:
        self.src, self.metadata, self.done = name, None, done

    @property
    def run(self) -> None:
        self.done.append(("loaded", self.src, current_thread()))


def test_launchers_are_built_at_once_and_loaded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str, Thread]] = []
    at_once = Barrier(3, timeout=20)

    class Builder:
        def launcher_cls(self, name: str, metadata: None) -> None:
            at_once.wait()
            done.append(("built", name, current_thread()))

    monkeypatch.setattr(driver, "_active", Builder())
    with ThreadPoolExecutor(3) as threads:
        together.load([Loaded(name, done) for name in "abc"], threads)
    assert {(what, name) for what, name, _ in done[:3]} == {("built", name) for name in "abc"}
    assert done[3:] == [("loaded", name, current_thread()) for name in "abc"]
