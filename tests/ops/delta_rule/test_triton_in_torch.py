"""The Triton delta rule as torch takes it: an operator, compiled, recomputed, replayed. Runs where its sibling runs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.ops import delta_rule
from tests.ops.compilation import assert_no_graph_break, compilations_by_length, without_type_checks
from tests.ops.delta_rule.test_triton import DEVICE, DTYPES, ON_GPU, STATE, Case
from tests.ops.delta_rule.test_triton import pytestmark as pytestmark
from tests.ops.graph_replay import assert_a_graph_replays
from tests.ops.kernel_accuracy import cast
from tests.ops.recomputation import assert_recomputation_changes_nothing


@pytest.mark.parametrize("time", [20, 70])
@pytest.mark.parametrize("gated", [False, True])
def test_it_is_an_operator_of_torch(time: int, gated: bool) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    case = Case(1, time, 1, 1, 8, 8, gated=gated)
    leaves = [None if x is None else x.float().requires_grad_() for x in case.draw()]
    delta_rule(*leaves[:5], initial_state=leaves[5], backend="triton")  # loads the operator
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.eigentrack.delta_rule, (*leaves, None, True), test_utils=checks)


@without_type_checks
@pytest.mark.parametrize("time", [20, 70])
def test_no_graph_break_under_compile(time: int) -> None:
    case = Case(1, time, 1, 1, 8, 8, gated=True)
    leaves = [x.float().requires_grad_() for x in case.draw() if x is not None]

    def loss(*leaves: Tensor) -> Tensor:
        y, last = delta_rule(*leaves[:5], initial_state=leaves[5], backend="triton")
        return y.square().sum() + last.square().sum()

    assert_no_graph_break(loss, leaves)


@without_type_checks
def test_one_compilation_takes_many_lengths() -> None:
    """Sizes are symbols then, which no table of plans can hold. The last three are short, which takes kernels of its own."""
    draws = (
        [x.float().requires_grad_() for x in Case(1, time, 1, 1, 8, 8).draw() if x is not None]
        for time in (65, 100, 70, 40, 50, 36)
    )
    counts = compilations_by_length(lambda *leaves: delta_rule(*leaves[:4], initial_state=leaves[4], backend="triton"), draws)
    assert counts[0] > 0
    assert counts[2] == counts[1]
    assert counts[5] == counts[3]


@pytest.mark.parametrize("as_operator", [False, True])
def test_activation_checkpointing(as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [x.float().requires_grad_() for x in Case(1, 9, 1, 2, 5, 3, gated=True).draw() if x is not None]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    assert_recomputation_changes_nothing(
        lambda *given: delta_rule(*given[:5], initial_state=given[5], backend="triton"), leaves
    )


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("time", [40, 300])
def test_a_cuda_graph_replays_it(time: int, dtype: torch.dtype) -> None:
    case = Case(4, time, 2, 1, 32, 32, gated=True)
    leaves = [x.to(dtype).requires_grad_() for x in case.draw() if x is not None]

    def run() -> tuple[Tensor, ...]:
        y, last = delta_rule(*leaves[:5], initial_state=leaves[5], backend="triton")
        return y, last, *torch.autograd.grad(y.sum() + last.sum(), leaves)

    assert_a_graph_replays(run)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cuda_graph_replays_packed_sequences(dtype: torch.dtype) -> None:
    """One graph takes other lengths too, as long as there are as many sequences: it reads the bounds on the GPU."""
    case = Case(1, 300, 2, 1, 32, 32, gated=True, bounds=(0, 1, 130, 131, 300))
    leaves = [x.to(dtype).requires_grad_() for x in case.draw() if x is not None]
    bounds = case.cu_seqlens
    others = torch.tensor([0, 64, 65, 200, 300], device=DEVICE)
    assert bounds is not None

    def run() -> tuple[Tensor, ...]:
        y, last = delta_rule(*leaves[:5], initial_state=leaves[5], cu_seqlens=bounds, backend="triton")
        return y, last, *torch.autograd.grad(y.sum() + last.sum(), leaves)

    assert_a_graph_replays(run, change=lambda: bounds.copy_(others))


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cuda_graph_replays_a_step(dtype: torch.dtype) -> None:
    *sequences, state = cast(Case(4, 1, 2, 1, 32, 32, gated=True).draw(), dtype, wide=[STATE])
    assert_a_graph_replays(lambda: delta_rule(*sequences, initial_state=state, backend="triton"))
