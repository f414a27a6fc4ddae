"""However the Triton scan is cut into programs, it gives the same answer. Runs where its sibling runs.

What long or many sequences are cut into, short and few ones are cut into here.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from eigentrack.ops.selective_scan import launch as kernels
from eigentrack.ops.selective_scan import plan as plans
from tests.ops.selective_scan.test_triton import INNER, SIGNED, Case, compare
from tests.ops.selective_scan.test_triton import pytestmark as pytestmark


@pytest.mark.parametrize("case", [Case(1, 37, 7, 4, INNER), Case(2, 17, 5, 3, SIGNED, carried=False)], ids=str)
def test_segments_give_the_same_answer(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long sequences are cut; here short ones are, so that the last segment is a part of one."""
    monkeypatch.setattr(plans, "SHORTEST_SEGMENT", 16)
    monkeypatch.setattr(plans, "FAR", 16)
    monkeypatch.setattr(plans, "_kept", plans.SelectiveScanPlan)  # plans of these sizes must not outlive the test
    x, _, b, *_ = case.draw()
    plan = plans.SelectiveScanPlan.of(x, b, None, *case.ends, save=True)
    assert plan.segments("forward").count > 1
    assert plan.segments("backward").count > 1
    compare(case, torch.float32, "reference")


def test_only_the_backward_pass_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(1, 33, 5, 3, SIGNED)
    monkeypatch.setattr(plans, "SHORTEST_SEGMENT", 16)
    monkeypatch.setattr(plans, "FAR", 16)
    monkeypatch.setattr(plans, "_kept", plans.SelectiveScanPlan)  # plans of these sizes must not outlive the test
    monkeypatch.setitem(plans.CUT_BELOW, "forward", 0)
    x, _, b, *_ = case.draw()
    plan = plans.SelectiveScanPlan.of(x, b, None, *case.ends, save=True)
    assert plan.segments("forward").count == 1
    assert plan.segments("backward").count > 1
    compare(case, torch.float32, "reference")


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 52, 9, 64, INNER),
        Case(2, 51, 7, 4, SIGNED, full=False, carried=False),
        Case(1, 60, 5, 3, SIGNED, bounds=(0, 1, 53, 60)),
    ],
    ids=str,
)
@pytest.mark.parametrize("cut", [False, True])
def test_far_checkpoints_and_windows_give_the_same_answer(case: Case, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of long sequences, in short ones; with segments besides, of which the last has fewer windows than the others."""
    smaller = {"NEAR": 1, "FAR": 24, "SHORTEST_WINDOW": 24, "SHARE_OF_SUMS": 0.01, "SMALLEST_SUMS": 1, "SHORTEST_SEGMENT": 48}
    for name, value in smaller.items():
        monkeypatch.setattr(plans, name, value)
    monkeypatch.setattr(plans, "_kept", plans.SelectiveScanPlan)
    if not cut:
        monkeypatch.setattr(plans, "CUT_BELOW", {"forward": 0, "backward": 0})
    x, _, b, *_ = case.draw()
    plan = plans.SelectiveScanPlan.of(x, b, case.cu_seqlens, *case.ends, save=True)
    assert plan.chunk == 24
    assert plan.windows.count == (1 if case.bounds else 2 if cut else 3)
    assert plan.segments("backward").count == (2 if cut and not case.bounds else 1)
    compare(case, torch.float32, "reference")

    # the gradient of the last state is the caller's
    x, dt, b, c, z, log_decay, skip, state = (None if y is None else y.float() for y in case.draw())
    inputs = kernels.Inputs(x, dt, b, c, z, log_decay, skip, state, case.cu_seqlens, *case.ends)
    out, saved = kernels.forward(inputs, save=True)
    given = torch.randn_like(out.last_state)
    before = given.clone()
    kernels.backward(inputs, saved, (out.y, given))
    assert torch.equal(given, before)


@pytest.mark.parametrize(
    ("case", "together", "groups"),
    [
        (Case(1, 37, 9, 64, SIGNED), 2, 1),
        (Case(1, 18, 17, 64, INNER, carried=False), 2, 2),  # three blocks, so that the second program has one
        (Case(1, 66, 9, 64, SIGNED, full=False), 2, 1),
    ],
    ids=str,
)
def test_blocks_that_share_their_sums_give_the_same_answer(
    case: Case, together: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program takes several blocks of channels, as where there are many sequences."""
    monkeypatch.setattr(plans.SelectiveScanPlan, "blocks_together", together)
    monkeypatch.setattr(plans, "_kept", plans.SelectiveScanPlan)
    x, _, b, *_ = case.draw()
    assert plans.SelectiveScanPlan.of(x, b, None, *case.ends, save=True).groups == groups
    compare(case, torch.float32, "reference")


@pytest.mark.parametrize("carried", [False, True])
def test_one_chunk_without_slots(carried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of thousands of short sequences: every stretch is walked to from the initial state."""
    case = Case(2, 20, 5, 3, SIGNED, carried=carried)
    monkeypatch.setattr(plans, "PROGRAMS_AT_ONCE", 0)
    monkeypatch.setattr(plans, "CUT_BELOW", {"forward": 0, "backward": 0})
    monkeypatch.setattr(plans.SelectiveScanPlan, "blocks_together", 1)
    monkeypatch.setattr(plans, "_kept", plans.SelectiveScanPlan)
    x, _, b, *_ = case.draw()
    plan = plans.SelectiveScanPlan.of(x, b, None, *case.ends, save=True)
    assert (plan.chunk, plan.checkpoints, plan.slots) == (plans.FAR, 0, 0)
    compare(case, torch.float32, "reference")
