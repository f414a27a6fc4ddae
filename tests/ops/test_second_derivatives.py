"""Second derivatives of every op on every backend: right, or refused by a message with the op, the backend and the fix."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.ops.cross_entropy.op import summed_cross_entropy
from eigentrack.ops.shared.dispatch import no_triton
from eigentrack.ops.short_convolution.op import short_convolution
from eigentrack.ops.short_convolution.reference import Part
from eigentrack.spectrum import EigenRange
from tests.ops.op_cases import CASES, SEQUENTIAL_CASES, Inputs, OpCase

ALL = [*CASES, *SEQUENTIAL_CASES]
SCALES = {"mlstm": 1, "slstm": 1}  # parts at the end of a state that only choose units; they have no gradient by design
STEP = 2.0**-15  # of a numerical derivative: much larger than 2⁻³², to which angles are rounded
with_kernels = pytest.mark.skipif(
    no_triton(torch.zeros(())) is not None, reason="Triton runs on a GPU, or under its interpreter, which another test starts"
)


def small(case: OpCase, packed: bool) -> tuple[Inputs, Tensor | None]:
    inputs = case.make(EigenRange(-0.5, 0.9), 1 if packed else 2, 7, 2)
    return inputs, torch.tensor([0, 5, 7]) if packed else None


def differentiated(inputs: Inputs, case: OpCase) -> list[Tensor]:
    """The inputs that have a gradient."""
    scales = inputs.state[len(inputs.state) - SCALES.get(case.name, 0) :]
    return [leaf for leaf in inputs.leaves() if not any(leaf is scale for scale in scales)]


@pytest.mark.parametrize(
    ("case", "backend", "packed"),
    # the reference takes packed sequences one by one
    [(case, backend, packed) for case in ALL for backend in case.op.backends for packed in {False, backend == "chunked"}],
    ids=lambda value: value.name if isinstance(value, OpCase) else {False: "batch", True: "packed"}.get(value, value),
)
def test_every_backend_in_plain_torch_is_twice_differentiable(case: OpCase, backend: str, packed: bool) -> None:
    inputs, cu_seqlens = small(case, packed)
    leaves = differentiated(inputs, case)
    options = {"chunk_size": 3} if backend == "chunked" else {}  # several chunks, and a shorter one

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        replaced = {id(leaf): new for leaf, new in zip(leaves, given, strict=True)}
        y, last = case.run(backend, inputs.map(lambda x: replaced.get(id(x), x)), cu_seqlens, **options)
        return (y, last[2]) if case.name == "slstm" else (y, *last)  # c and n are in units of m

    fresh = [leaf.clone().requires_grad_() for leaf in leaves]
    assert torch.autograd.gradgradcheck(run, fresh, eps=STEP, fast_mode=True)


@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
def test_the_short_convolution_is_twice_differentiable(packed: bool) -> None:
    rows, bounds = (1, torch.tensor([0, 1, 6])) if packed else (2, None)
    shapes = [(rows, 6, 4), (rows, 6, 2), (2, 2, 6), (6, 3), (6,)]
    leaves = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def run(x: Tensor, other: Tensor, window: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        parts = [Part(x, unit_rows=2, scale=0.5), Part(other)]
        convolved = short_convolution(parts, window, weight, bias, cu_seqlens=bounds, silu=True, backend="reference")
        assert convolved.window is not None
        return *convolved.parts, convolved.window

    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


def cross_entropy(backend: str, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
    x, weight = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((5, 3), (4, 3)))
    return summed_cross_entropy(x, weight, torch.tensor([0, 3, -100, 1, 2]), chunk=2, backend=backend), [x, weight]


def test_the_cross_entropy_is_twice_differentiable_by_its_reference() -> None:
    x, weight = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (4, 3)))
    targets = torch.tensor([0, 3, -100, 1, 2])
    assert torch.autograd.gradgradcheck(lambda *given: summed_cross_entropy(*given, targets, backend="reference"), [x, weight])


def test_the_cross_entropy_in_chunks_refuses() -> None:
    loss, leaves = cross_entropy("chunked", torch.float64)
    refusal = "cross_entropy: the backend 'chunked' has no second derivatives .* use backend=\"reference\""
    with pytest.raises(NotImplementedError, match=refusal):
        torch.autograd.grad(loss, leaves, create_graph=True)


@with_kernels
def test_every_kernel_refuses() -> None:
    """One loss is linear in what the kernel returns: its gradient has no graph of its own that could give the error away."""
    refused = set()
    for case in ALL:
        inputs, _ = small(case, False)
        inputs = inputs.map(lambda x: x.float().requires_grad_())
        given = {"initial_state": inputs.state if len(inputs.state) > 1 else inputs.state[0], **inputs.constants}
        if case.op.kernel is None or case.op.kernel.refusal(*inputs.sequences, **given) is not None:
            continue
        for loss in (Tensor.sum, lambda y: y.square().sum()):
            y, _ = case.op.function("triton")(*inputs.sequences, packing=None, **given)
            with pytest.raises(NotImplementedError, match=f"{case.op.name}: the backend 'triton' has no second derivatives"):
                torch.autograd.grad(loss(y), inputs.leaves(), create_graph=True, allow_unused=True)
        refused.add(case.op.name)
    assert refused >= {"delta_rule", "gated_linear", "selective_scan", "slstm"}

    x, window, weight = (torch.randn(*shape, requires_grad=True) for shape in ((2, 6, 4), (2, 2, 4), (4, 3)))
    y = short_convolution([Part(x)], window, weight, backend="triton").parts[0]
    with pytest.raises(NotImplementedError, match="short_convolution: the backend 'triton' has no second derivatives"):
        torch.autograd.grad(y.sum(), weight, create_graph=True)
    loss_of_kernel, leaves = cross_entropy("triton", torch.float32)
    with pytest.raises(NotImplementedError, match="cross_entropy: the backend 'triton' has no second derivatives"):
        torch.autograd.grad(loss_of_kernel, leaves, create_graph=True)
