"""Backends in plain torch as operators of torch: the same numbers and gradients as without the operator around them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.whole_operator import run_as_operator
from eigentrack.spectrum import EigenRange
from tests.ops.op_cases import CASES, SEQUENTIAL_CASES, Inputs, OpCase

BOUNDS = torch.tensor([0, 3, 9])
every_op = pytest.mark.parametrize("case", [*CASES, *SEQUENTIAL_CASES], ids=lambda case: case.name)
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def call(case: OpCase, inputs: Inputs, packing: Packing | None, as_operator: bool) -> tuple[Tensor, ...]:
    backend = case.op.default
    state = inputs.state if len(inputs.state) > 1 else inputs.state[0]
    given: dict[str, Any] = {"initial_state": state, "packing": packing, **inputs.constants}
    if as_operator:
        y, last = run_as_operator(case.op.name, backend, *inputs.sequences, **given)
    else:
        y, last = case.op.backends[backend](*inputs.sequences, **given)
    return y, *(last if isinstance(last, tuple) else (last,))


@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
@every_op
def test_an_operator_gives_what_its_backend_gives(case: OpCase, packed: bool) -> None:
    inputs = case.make(EigenRange(-0.5, 0.9), 1 if packed else 2, 9, 2).map(lambda x: x.requires_grad_())
    packing = Packing.of(next(x for x in inputs.sequences if x is not None), BOUNDS) if packed else None
    results = []
    for as_operator in (False, True):
        outputs = call(case, inputs, packing, as_operator)
        loss = sum(output.sin().sum() for output in outputs if output.requires_grad)
        # m, which only chooses units, has no gradient, and one of zero as an operator's input
        gradients = torch.autograd.grad(loss, inputs.leaves(), allow_unused=True, materialize_grads=True)
        results.append([*outputs, *gradients])
    for n, (expected, found) in enumerate(zip(*results, strict=True)):
        assert torch.equal(found, expected), f"output or gradient {n}"


@pytest.mark.parametrize("name", ["selective_scan, turning", "mlstm", "dense_scan, no input"])
def test_it_is_an_operator_of_torch(name: str) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    seen: list[tuple[Any, ...]] = []
    case = next(case for case in CASES if case.name == name)
    inputs = case.make(EigenRange(-0.5, 0.9), 2, 9, 2).map(lambda x: x.requires_grad_())

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if str(func).startswith("eigentrack.recurrence.default"):
                seen.append(args)
            return func(*args, **(kwargs or {}))

    with Record():
        call(case, inputs, None, True)
    ((op, backend, tensors, *rest),) = seen
    leaves = [x.detach().requires_grad_() for x in tensors]
    torch.library.opcheck(torch.ops.eigentrack.recurrence, (op, backend, leaves, *rest), test_utils=CHECKS)


@every_op
def test_an_operator_refuses_second_derivatives(case: OpCase) -> None:
    inputs = case.make(EigenRange(-0.5, 0.9), 2, 5, 2).map(lambda x: x.requires_grad_())
    y = call(case, inputs, None, True)[0]
    refusal = f"{case.op.name}: the backend '{case.op.default}, compiled' has no second derivatives"
    with pytest.raises(NotImplementedError, match=refusal):
        torch.autograd.grad(y.sum(), inputs.leaves(), create_graph=True, allow_unused=True)
