"""The gradient of P_t is that of a scan with full matrices at the one-hot P_t; second derivatives are refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.ops import dense_scan, one_hot_scan
from tests.closeness import assert_close

BACKENDS = ["reference", "chunked"]
HEADS, ENTRIES, TIME = 2, 4, 37
BOUNDS = torch.tensor([0, 1, 20, TIME])


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def one_hot(rows: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(rows, rows.shape[-1]).mT.double()


def gradients(states: Tensor, last: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    weight = torch.linspace(-1, 1, states.numel(), dtype=states.dtype).view_as(states)
    return torch.autograd.grad((states.sin() * weight).sum() + last.square().sum(), leaves)


@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed"])
@pytest.mark.parametrize("with_input", [False, True], ids=["no input", "input"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradients_are_those_of_full_matrices(backend: str, with_input: bool, packed: bool) -> None:
    rows = torch.randint(ENTRIES, (1, TIME, HEADS, ENTRIES))
    bounds, sequences = (BOUNDS, 3) if packed else (None, 1)
    a = torch.rand(1, TIME, HEADS, ENTRIES, dtype=torch.float64).requires_grad_()
    start = draw(sequences, HEADS, ENTRIES).requires_grad_()
    b = draw(1, TIME, HEADS, ENTRIES).requires_grad_() if with_input else None
    softmax = one_hot(rows).requires_grad_()  # so that both have the same values
    leaves = [softmax, a, start, *([] if b is None else [b])]
    found = one_hot_scan(a, b, rows, softmax=softmax, initial_state=start, cu_seqlens=bounds, backend=backend)
    states, last = dense_scan(
        softmax * a[..., None, :],
        None if b is None else b[..., None],
        initial_state=start[..., None],
        cu_seqlens=bounds,
        backend="reference",
    )
    expected = (states.squeeze(-1), last.squeeze(-1))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)
    for ours, theirs in zip(gradients(*found, leaves), gradients(*expected, leaves), strict=True):
        assert theirs.abs().max() > 0
        assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_entries_have_the_gradient_of_both_parts(backend: str) -> None:
    rows = torch.randint(ENTRIES, (1, 5, 1, ENTRIES))
    a, turns = torch.rand(1, 5, 1, ENTRIES, dtype=torch.float64), torch.randint(2**32, rows.shape).double() / 2**32
    start, softmax = draw(1, 1, 2 * ENTRIES), one_hot(rows).requires_grad_()
    states, last = one_hot_scan(a, None, rows, turns=turns, softmax=softmax, initial_state=start, backend=backend)

    h = torch.view_as_complex(start.unflatten(-1, (ENTRIES, 2)))[0, 0]
    expected = []
    for t in range(5):
        h = softmax[0, t, 0].to(h.dtype) @ (torch.polar(a, 2 * torch.pi * turns)[0, t, 0] * h)
        expected.append(torch.view_as_real(h).flatten())
    assert_close(states[0, :, 0], torch.stack(expected))
    alone = gradients(torch.stack(expected)[None, :, None], expected[-1][None, None], [softmax])
    for ours, theirs in zip(gradients(states, last, [softmax]), alone, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_are_refused(backend: str) -> None:
    """Also those of other inputs, whose gradients depend on states that P has chosen."""
    rows, softmax = torch.randint(ENTRIES, (1, 6, 1, ENTRIES)), draw(1, 6, 1, ENTRIES, ENTRIES).requires_grad_()
    a, b = draw(1, 6, 1, ENTRIES).requires_grad_(), draw(1, 6, 1, ENTRIES).requires_grad_()
    for leaf in (softmax, a):
        states, _ = one_hot_scan(a, b, rows, softmax=softmax, backend=backend)
        with pytest.raises(NotImplementedError, match="the straight-through gradient of P has no second derivatives"):
            torch.autograd.grad(states.sum(), leaf, create_graph=True)
    states, _ = one_hot_scan(a, b, rows, softmax=softmax.detach(), backend=backend)
    (slope,) = torch.autograd.grad(states.sum(), a, create_graph=True)
    assert torch.autograd.grad(slope.sum(), b)[0].abs().max() > 0
