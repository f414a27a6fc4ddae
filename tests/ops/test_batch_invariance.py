"""In the batch-invariant mode a sequence has the same bits alone, in any batch, and packed beside any others, for every op.

EIGENTRACK_TEST_DEVICE=cuda runs this file on a GPU, with the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack import batch_invariant
from eigentrack.ops.shared import batch_invariance
from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.dispatch import STEP
from eigentrack.ops.shared.packing import Packing
from eigentrack.spectrum import EigenRange
from tests.ops.op_cases import CASES, SEQUENTIAL_CASES, OpCase
from tests.random_batches import LENGTHS, SEQUENCES, assert_forward_is_invariant, assert_step_is_invariant, laid_out

SHORT = (1, 3, 6)  # for the reference, a loop over time


ALL = [*CASES, *SEQUENTIAL_CASES]
FIRST = list({case.op.name: case for case in reversed(ALL)}.values())


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
@torch.no_grad()
def test_every_op_is_batch_invariant(case: OpCase) -> None:
    assert_op_is_invariant(case, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
@torch.no_grad()
def test_every_case_of_every_op_is_batch_invariant(case: OpCase, backend: str) -> None:
    assert_op_is_invariant(case, backend)


def assert_op_is_invariant(case: OpCase, backend: str) -> None:
    pool = case.make(EigenRange(-0.5, 0.9), SEQUENCES, max(LENGTHS), SEQUENCES).map(lambda x: x.float())

    def run(chosen: Sequence[int], spans: Sequence[int], bounds: Tensor | None, by: str = backend) -> tuple[Tensor, Any]:
        sequences = [None if x is None else laid_out(x, chosen, spans, bounds) for x in pool.sequences]
        state = tuple(part[list(chosen)] for part in pool.state)
        packing = None if bounds is None else Packing.of(next(x for x in sequences if x is not None), bounds)
        start = state if len(state) > 1 else state[0]
        return case.op.run(by, *sequences, initial_state=start, packing=packing, **pool.constants)

    def step(token: Tensor, _: None) -> tuple[Tensor, Any]:
        numbers = token.tolist()
        y, last = run(numbers, [1] * len(numbers), None, STEP)
        return y[:, 0], last

    with batch_invariant():
        assert_forward_is_invariant(run, LENGTHS if backend == "auto" else SHORT)
        if backend == "auto":  # the same token thrice, from the same states
            assert_step_is_invariant(step, torch.arange(SEQUENCES)[:, None].expand(-1, 3), lambda states: None)


def test_the_mode_ends_also_after_an_error_and_may_be_nested() -> None:
    with batch_invariant():
        with batch_invariant():
            assert is_batch_invariant()
        assert is_batch_invariant()
    with pytest.raises(KeyError), batch_invariant():
        raise KeyError
    assert not is_batch_invariant()


REPLACED = {
    "a product": lambda x: x @ x[0].mT,
    "many products": lambda x: x @ x.mT,
    "a product plus a vector": lambda x: F.linear(x, x[1], x[0, :, 0]),
    "a matrix and a vector": lambda x: x[0] @ x[0, 0],
    "an empty product": lambda x: x[:, :0] @ x[:, :0].mT,
    "a triangular system": lambda x: torch.linalg.solve_triangular(
        x[:, :, :18] / 9, x[:, :, 18:], upper=False, unitriangular=True
    ),
    "softplus": lambda x: F.softplus(9 * x),
    "sigmoid": lambda x: (9 * x).sigmoid(),
    "silu": lambda x: F.silu(9 * x),
    "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(),
    "softmax": lambda x: x.softmax(-2),
    "hypot": lambda x: torch.hypot(x, x.flip(-1).relu()),
    "atan2": lambda x: torch.atan2(x.sign() * x.square(), x.flip(-1)),
    "sum": lambda x: x.sum((0, -1), keepdim=True),
    "mean": lambda x: x.mean(-2),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True),
    "running sum": lambda x: x.cumsum(1),
}


@pytest.mark.parametrize("as_on_a_gpu", [False, True])
@pytest.mark.parametrize("what", REPLACED)
def test_replacements_are_what_they_replace(what: str, as_on_a_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, run = torch.randn(3, 18, 25, dtype=torch.float64), REPLACED[what]
    x[0, 0, :3] = torch.tensor([0.0, -1.0, 2.0])
    expected = run(x)
    with batch_invariant():
        monkeypatch.setattr(batch_invariance, "_on_gpu", lambda _: as_on_a_gpu)
        found = run(x)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
