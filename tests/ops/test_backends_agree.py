"""Every backend agrees with the sequential reference: values, last state and all first gradients."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigentrack.spectrum import EigenRange
from tests.closeness import TOLERANCE, assert_close, relative_error
from tests.ops.op_cases import CASES, RANGES, SEQUENTIAL_CASES, Inputs, OpCase

LENGTHS = [1, 2, 63, 64, 65, 150]
BACKENDS = [(case, backend) for case in [*CASES, *SEQUENTIAL_CASES] for backend in case.op.backends]


def outputs_and_gradients(
    case: OpCase, backend: str, inputs: Inputs, cu_seqlens: Tensor | None, **options: int
) -> list[Tensor]:
    """y, the last state, and the gradients of a random projection of both, on fresh leaves."""
    fresh = inputs.map(lambda x: x.detach().clone().requires_grad_(x.is_floating_point()))
    y, state = case.run(backend, fresh, cu_seqlens, **options)
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    weights = [torch.randn(out.shape, dtype=torch.float64, generator=generator).to(out.dtype) for out in (y, *state)]
    loss = sum((out * weight).sum() for out, weight in zip((y, *state), weights, strict=True))
    gradients = torch.autograd.grad(loss, fresh.leaves(), allow_unused=case.name == "mlstm")
    # mLSTM's m carries no gradient by design
    return [y, *state, *(gradient for gradient in gradients if gradient is not None)]


def packed_bounds(time: int) -> Tensor:
    """A few sequences of odd lengths; a single one when there is no room."""
    cuts = sorted({0, min(1, time), time // 7, time // 2, max(time - 3, 0), time})
    return torch.tensor(cuts)


@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
@pytest.mark.parametrize("time", LENGTHS)
@pytest.mark.parametrize("eigenvalues", RANGES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_chunked_equals_reference(case: OpCase, eigenvalues: EigenRange, time: int, packed: bool) -> None:
    cu_seqlens = packed_bounds(time) if packed else None
    batch, sequences = (1, len(cu_seqlens) - 1) if cu_seqlens is not None else (2, 2)
    inputs = case.make(eigenvalues, batch, time, sequences)
    expected = outputs_and_gradients(case, "reference", inputs, cu_seqlens)
    found = outputs_and_gradients(case, "chunked", inputs, cu_seqlens)
    assert len(found) == len(expected) >= 3
    for position, (ours, reference) in enumerate(zip(found, expected, strict=True)):
        assert torch.isfinite(ours).all()
        assert_close(ours, reference, f"output or gradient {position}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    low=st.floats(-1, 0.5),
    width=st.floats(0.1, 0.5),
    chunk=st.integers(1, 17),
    packed=st.booleans(),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=15, deadline=None)
def test_values_and_gradients_agree_whatever_the_shape(
    case: OpCase, lengths: list[int], low: float, width: float, chunk: int, packed: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    time = sum(lengths) if packed else lengths[0]
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0) if packed else None
    rows = len(lengths)
    inputs = case.make(EigenRange(low, low + width), 1 if packed else rows, time, rows)
    expected = outputs_and_gradients(case, "reference", inputs, cu_seqlens)
    found = outputs_and_gradients(case, "chunked", inputs, cu_seqlens, chunk_size=chunk)
    for ours, reference in zip(found, expected, strict=True):
        assert_close(ours, reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lower_precisions_stay_near_the_float64_reference(case: OpCase, dtype: torch.dtype) -> None:
    inputs = case.make(EigenRange(-1, 1), 2, 130, 2).map(lambda x: x.to(dtype))
    state = inputs.state if len(inputs.state) > 1 else inputs.state[0]
    for backend in case.op.backends:
        y, last = case.op.run(backend, *inputs.sequences, initial_state=state, packing=None, **inputs.constants)
        exact, _ = case.run("reference", inputs.map(lambda x: x.double()))
        assert y.dtype == dtype
        assert (last[0] if isinstance(last, tuple) else last).dtype == torch.float32
        assert_close(y, exact, backend, dtype)


@pytest.mark.parametrize(("case", "backend"), BACKENDS, ids=lambda value: getattr(value, "name", value))
def test_gradcheck(case: OpCase, backend: str) -> None:
    """Against finite differences, at T = 6 with chunks of 4, packed and carried: along random directions, which takes a few
    runs; entry by entry where there are angles, as these move by whole numbers of 2⁻³² turns."""
    options = {"chunk_size": 4} if backend == "chunked" else {}
    inputs = case.make(EigenRange(-0.9, 0.9), 1, 6, 2)
    leaves = inputs.leaves()
    if case.name in ("mlstm", "slstm"):  # the last state entry m only chooses units
        leaves = [leaf for leaf in leaves if leaf is not inputs.state[-1]]

    def run(*values: Tensor) -> tuple[Tensor, ...]:
        changed = dict(zip(map(id, leaves), values, strict=True))
        y, state = case.run(backend, inputs.map(lambda x: changed.get(id(x), x)), torch.tensor([0, 1, 6]), **options)
        return (y, *(() if case.name == "slstm" else state))

    directions = "turning" not in case.name
    assert torch.autograd.gradcheck(run, [leaf.requires_grad_() for leaf in leaves], eps=2**-20, fast_mode=directions)


@pytest.mark.parametrize(("case", "backend"), BACKENDS, ids=lambda value: getattr(value, "name", value))
def test_a_split_sequence_gives_the_same_answer(case: OpCase, backend: str) -> None:
    inputs = case.make(EigenRange(-1, 1), 2, 150, 2)
    whole, whole_state = case.run(backend, inputs)
    pieces, state = [], inputs.state
    for first, last in pairwise([0, 1, 64, 77, 150]):
        part = tuple(None if x is None else x[:, first:last] for x in inputs.sequences)
        y, raw = case.op.backends[backend](
            *part, initial_state=state if len(state) > 1 else state[0], packing=None, **inputs.constants
        )
        state = raw if isinstance(raw, tuple) else (raw,)
        pieces.append(y)
    assert_close(torch.cat(pieces, 1), whole)
    if case.name != "mlstm":
        for ours, expected in zip(state, whole_state, strict=True):
            assert_close(ours, expected, "last state")


@pytest.mark.parametrize(("case", "backend"), BACKENDS, ids=lambda value: getattr(value, "name", value))
def test_packed_sequences_equal_each_sequence_alone(case: OpCase, backend: str) -> None:
    bounds = torch.tensor([0, 70, 71, 130, 135])
    inputs = case.make(EigenRange(-1, 1), 1, 135, 4)
    packed, packed_state = case.run(backend, inputs, bounds)
    for n, (first, last) in enumerate(pairwise(bounds.tolist())):
        alone = Inputs(
            tuple(None if x is None else x[:, first:last] for x in inputs.sequences),
            tuple(part[n : n + 1] for part in inputs.state),
            inputs.constants,
        )
        y, state = case.run("reference", alone)
        assert_close(packed[:, first:last], y)
        for ours, expected in zip(packed_state, state, strict=True):
            assert_close(ours[n : n + 1], expected)


def test_the_measure_of_closeness_can_fail() -> None:
    reference = torch.ones(3, dtype=torch.float64)
    assert relative_error(reference + 1e-6, reference) > TOLERANCE[torch.float64]
    with pytest.raises(AssertionError, match="relative error"):
        assert_close(torch.full((3,), torch.nan, dtype=torch.float64), reference)
