"""In the batch-invariant mode kernels, and the constants that they are compiled with, depend on the sequence alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack import batch_invariant
from eigentrack.ops.delta_rule.plan import DeltaRulePlan
from eigentrack.ops.gated_linear.plan import GatedLinearPlan
from eigentrack.ops.selective_scan.plan import SelectiveScanPlan
from eigentrack.ops.shared import dispatch
from eigentrack.ops.shared.dispatch import STEP, Kernel, Op
from eigentrack.ops.short_convolution.launch import FORWARD_TILE, Inputs
from eigentrack.ops.slstm.plan import SLSTMPlan

# the lengths of packed sequences: one token, one sequence, many, and few long ones
PACKINGS = ([1], [70], [1, 3], [16] * 3, [5] * 700, [3000, 1, 9000])
DTYPES = (torch.float32, torch.bfloat16)


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def bounds_of(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def delta_rule(rows: int, time: int, bounds: Tensor | None, dtype: torch.dtype, width: int) -> dict[str, Any]:
    q, k, v = (empty(rows, time, 2, *n, width, dtype=dtype) for n in ((), (1,), (1,)))
    plan = DeltaRulePlan.of(q, k, v, None, bounds, False)
    assert not plan.short
    if plan.step:
        return {**plan.constants, **plan.step_settings}
    assert not plan.single
    return {"constants": plan.constants, "prepare": plan.prepare_settings, "walk": plan.walk_settings}


def gated_linear(rows: int, time: int, bounds: Tensor | None, dtype: torch.dtype, width: int) -> dict[str, Any]:
    q, k, v, a = (empty(rows, time, 2, width, dtype=dtype) for _ in range(4))
    plan = GatedLinearPlan.of(q, k, v, a, bounds, False)
    assert not plan.short
    if plan.step:
        return plan.step_settings()
    assert plan.segments == 1
    assert not plan.single
    settings = (plan.walk_settings(), plan.output_settings(), plan.scores_settings())
    return {"constants": plan.constants(), "settings": settings}


def selective_scan(rows: int, time: int, bounds: Tensor | None, dtype: torch.dtype, width: int) -> dict[str, Any]:
    plan = SelectiveScanPlan.of(
        empty(rows, time, width, dtype=dtype), empty(rows, time, 16, dtype=dtype), bounds, -1.0, 1.0, False
    )
    if plan.step:
        return {**plan.constants(), **plan.step_settings}
    assert plan.segments("forward").count == 1
    return {**plan.checkpointed(), **plan.settings("forward"), "OWN": plan.own_channels}


def slstm(rows: int, time: int, bounds: Tensor | None, dtype: torch.dtype, width: int) -> dict[str, Any]:
    return SLSTMPlan.of(empty(rows, time, 2, 4, width, dtype=dtype), bounds).settings()


def short_convolution(rows: int, time: int, bounds: Tensor | None, dtype: torch.dtype, width: int) -> dict[str, Any]:
    x, weight = empty(rows, time, width, dtype=dtype), empty(width, 4, dtype=dtype)
    inputs = Inputs(x, empty(rows, 3, width), weight, None, bounds, None, True, 0, 1.0)
    return {**inputs.constants(FORWARD_TILE), "length": inputs.cut(FORWARD_TILE)[0]}


PLANS = [delta_rule, gated_linear, selective_scan, slstm, short_convolution]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [8, 32, 64, 128])
@pytest.mark.parametrize("plan", PLANS)
def test_packed_sequences_have_one_plan(plan: Any, width: int, dtype: torch.dtype) -> None:
    with batch_invariant():
        plans = [plan(1, sum(lengths), bounds_of(lengths), dtype, width) for lengths in PACKINGS]
    assert all(other == plans[0] for other in plans)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [8, 64, 4096])
@pytest.mark.parametrize("plan", [delta_rule, gated_linear, selective_scan, slstm])
def test_steps_have_one_plan(plan: Any, width: int, dtype: torch.dtype) -> None:
    with batch_invariant():
        plans = [plan(rows, 1, None, dtype, width) for rows in (1, 2, 50, 5000)]
    assert all(other == plans[0] for other in plans)


def test_without_the_mode_plans_depend_on_the_batch() -> None:
    few, many = [3000], [5] * 700
    for plan in (delta_rule, selective_scan, slstm, short_convolution):
        assert plan(1, sum(few), bounds_of(few), torch.bfloat16, 64) != plan(900, 3000, None, torch.bfloat16, 64), plan
    # a plan that was made outside of the mode does not serve inside it
    outside = delta_rule(1, sum(many), bounds_of(many), torch.bfloat16, 64)
    with batch_invariant():
        assert delta_rule(1, 3, bounds_of([3]), torch.bfloat16, 64) == delta_rule(1, 3500, bounds_of(many), torch.bfloat16, 64)
    assert outside == delta_rule(1, sum(many), bounds_of(many), torch.bfloat16, 64)


def test_a_kernel_gets_a_batch_as_packed_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)
    seen: list[Any] = []

    def kernel(x: Tensor, *, initial_state: Any, packing: Any) -> tuple[Tensor, Any]:
        seen.append((x.shape, None if packing is None else packing.bounds.tolist()))
        return x + 1, initial_state

    op = Op("made up", {"reference": kernel}, Kernel(lambda: kernel, lambda *_, **__: None))
    x, state = torch.arange(12.0).view(3, 4, 1), torch.zeros(3)
    with batch_invariant():
        y, last = op.run("auto", x, initial_state=state, packing=None)
        op.run(STEP, x[:, :1], initial_state=state, packing=None)
    op.run("auto", x, initial_state=state, packing=None)
    assert torch.equal(y, x + 1)
    assert last is state
    assert seen == [((1, 12, 1), [0, 4, 8, 12]), ((3, 1, 1), None), ((3, 4, 1), None)]
