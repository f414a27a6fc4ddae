"""The Triton scan as torch takes it: an operator, compiled, recomputed, replayed. Runs where its sibling runs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.ops.compilation import assert_no_graph_break, compilations_by_length, without_type_checks
from tests.ops.graph_replay import assert_a_graph_replays
from tests.ops.recomputation import assert_recomputation_changes_nothing
from tests.ops.selective_scan.test_triton import DTYPES, INNER, ON_GPU, SIGNED, Case, run
from tests.ops.selective_scan.test_triton import pytestmark as pytestmark


@pytest.mark.parametrize("full", [False, True])
def test_it_is_an_operator_of_torch(full: bool) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    case = Case(1, 65 if full else 9, 4, 3, SIGNED, full=full, carried=full)  # with checkpoints, and without
    leaves = [None if x is None else x.float().requires_grad_() for x in case.draw()]
    run("triton", case, leaves)  # loads the operator
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.eigentrack.selective_scan, (*leaves, None, -1.0, 1.0, True), test_utils=checks)


@without_type_checks
def test_no_graph_break_under_compile() -> None:
    case = Case(1, 9, 5, 4, INNER)
    leaves = [x.float().requires_grad_() for x in case.draw() if x is not None]

    def loss(*leaves: Tensor) -> Tensor:
        y, last = run("triton", case, list(leaves))
        return y.square().sum() + last.square().sum()

    assert_no_graph_break(loss, leaves)


@without_type_checks
def test_one_compilation_takes_many_lengths() -> None:
    """Sizes are symbols then. Up to 16 tokens, up to 64, and more are compiled apart: only the last have checkpoints."""
    lengths = (18, 33, 24, 9, 12, 66, 100)
    draws = ([x.float().requires_grad_() for x in Case(1, time, 5, 4, INNER).draw() if x is not None] for time in lengths)
    counts = compilations_by_length(lambda *leaves: run("triton", Case(1, 1, 5, 4, INNER), list(leaves)), draws)
    assert counts[0] > 0
    assert counts[2] == counts[1]
    assert counts[4] == counts[3]
    assert counts[6] == counts[5]


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
