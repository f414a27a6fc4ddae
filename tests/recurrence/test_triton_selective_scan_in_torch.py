"""The Triton scan as torch takes it: an operator, compiled, recomputed, replayed. Runs where its sibling runs."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import Tensor

from tests.closeness import TOLERANCE, relative_error
from tests.recurrence.graph_replay import assert_a_graph_replays
from tests.recurrence.recomputation import assert_recomputation_changes_nothing
from tests.recurrence.test_triton_selective_scan import DTYPES, INNER, ON_GPU, SIGNED, Case, run
from tests.recurrence.test_triton_selective_scan import pytestmark as pytestmark


@pytest.mark.parametrize("full", [False, True])
def test_it_is_an_operator_of_torch(full: bool) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    case = Case(1, 9, 4, 3, SIGNED, full=full, carried=full)
    leaves = [None if x is None else x.float().requires_grad_() for x in case.draw()]
    run("triton", case, leaves)  # loads the operator
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.eigentrack.selective_scan, (*leaves, None, -1.0, 1.0, True), test_utils=checks)


@pytest.mark.skipif(
    importlib.util.find_spec("beartype") is not None, reason="type checks break graphs; see test_triton_interpreted"
)
def test_no_graph_break_under_compile() -> None:
    case = Case(1, 9, 5, 4, INNER)
    leaves = [x.float().requires_grad_() for x in case.draw() if x is not None]

    def loss(*leaves: Tensor) -> Tensor:
        y, last = run("triton", case, list(leaves))
        return y.square().sum() + last.square().sum()

    expected = torch.autograd.grad(loss(*leaves), leaves)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*leaves), leaves)
    for ours, plain in zip(found, expected, strict=True):
        assert relative_error(ours, plain) <= TOLERANCE[torch.float32]


@pytest.mark.skipif(
    importlib.util.find_spec("beartype") is not None, reason="type checks break graphs; see test_triton_interpreted"
)
def test_one_compilation_takes_many_lengths() -> None:
    """Sizes are symbols then."""
    from torch._dynamo.testing import CompileCounterWithBackend

    def step(*leaves: Tensor) -> list[Tensor]:
        return list(run("triton", Case(1, 1, 5, 4, INNER), list(leaves)))

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step, fullgraph=True, backend=counter, dynamic=True)
    compilations = []
    for time in (18, 33, 24, 9, 12):  # fewer than 16 tokens are no whole chunk, and compiled apart
        leaves = [x.float().requires_grad_() for x in Case(1, time, 5, 4, INNER).draw() if x is not None]
        plain, found = step(*leaves), compiled(*leaves)
        for outputs in (plain, found):
            outputs += torch.autograd.grad(outputs[0].sum() + outputs[1].sum(), leaves)
        for ours, expected in zip(found, plain, strict=True):
            assert relative_error(ours, expected) <= TOLERANCE[torch.float32]
        compilations.append(counter.frame_count)
    assert compilations[0] > 0
    assert compilations[2] == compilations[1]
    assert compilations[4] == compilations[3]


@pytest.mark.parametrize("as_operator", [False, True])
def test_activation_checkpointing(as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(1, 18, 5, 4, INNER)
    leaves = [x.float().requires_grad_() for x in case.draw() if x is not None]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    assert_recomputation_changes_nothing(lambda *given: run("triton", case, list(given)), leaves)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("time", [40, 3000])
def test_a_cuda_graph_replays_it(time: int, dtype: torch.dtype) -> None:
    case = Case(2, time, 64, 16, SIGNED)
    leaves = [x.to(dtype).requires_grad_() for x in case.draw() if x is not None]

    def step() -> tuple[Tensor, ...]:
        y, last = run("triton", case, list(leaves))
        return y, last, *torch.autograd.grad(y.sum() + last.sum(), leaves)

    assert_a_graph_replays(step)
