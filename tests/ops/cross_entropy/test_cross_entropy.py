"""The fused cross-entropy is the plain one, forward and backward, and holds one chunk of logits at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from eigentrack.ops.cross_entropy.op import IGNORED, summed_cross_entropy


def sample(tokens: int, width: int, vocabulary: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(tokens, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    targets = torch.randint(vocabulary, (tokens,))
    targets[::3] = IGNORED
    return x, weight, targets


@pytest.mark.parametrize(
    ("backend", "chunk"), [("reference", None), *(("chunked", chunk) for chunk in (1, 3, 4, 10, 11, 100)), ("auto", None)]
)
def test_it_is_the_plain_cross_entropy(backend: str, chunk: int | None) -> None:
    x, weight, targets = sample(10, 4, 7)
    found = summed_cross_entropy(x, weight, targets, chunk=chunk, backend=backend)
    expected = F.cross_entropy(x @ weight.mT, targets, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(found, expected)
    found_gradients = torch.autograd.grad(found * 0.3, (x, weight))
    torch.testing.assert_close(found_gradients, torch.autograd.grad(expected * 0.3, (x, weight)))


def test_gradcheck() -> None:
    x, weight, targets = sample(5, 3, 6)
    assert torch.autograd.gradcheck(lambda x, w: summed_cross_entropy(x, w, targets, chunk=2), (x, weight))


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="cross_entropy has no backend 'cuda'; it has auto, reference, chunked, triton"):
        summed_cross_entropy(*sample(2, 2, 3), backend="cuda")


def test_nothing_asked_gives_zero_and_no_gradient() -> None:
    x, weight, targets = sample(5, 3, 6)
    loss = summed_cross_entropy(x, weight, torch.full_like(targets, IGNORED), chunk=2)
    assert loss.item() == 0
    assert all(not gradient.any() for gradient in torch.autograd.grad(loss, (x, weight)))


def test_a_tied_weight_gets_the_gradient_of_both_its_uses() -> None:
    _, weight, targets = sample(6, 3, 5)
    tokens = torch.tensor([0, 1, 2, 3, 4, 0])
    found = summed_cross_entropy(F.embedding(tokens, weight), weight, targets, chunk=4)
    expected = F.cross_entropy(F.embedding(tokens, weight) @ weight.mT, targets, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(torch.autograd.grad(found, weight), torch.autograd.grad(expected, weight))


def test_half_precision_sums_in_float32() -> None:
    x, weight, targets = sample(600, 8, 9, torch.bfloat16)
    found = summed_cross_entropy(x, weight, targets, chunk=7)
    assert found.dtype == torch.float32
    rounded = F.cross_entropy((x @ weight.mT).double(), targets, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(found.double(), rounded, rtol=1e-5, atol=0)
    gradients = torch.autograd.grad(found, (x, weight))
    exact = torch.autograd.grad(
        F.cross_entropy(x.double() @ weight.double().mT, targets, ignore_index=IGNORED, reduction="sum"), (x, weight)
    )
    for ours, theirs in zip(gradients, exact, strict=True):
        assert ours.dtype == torch.bfloat16
        assert (ours - theirs).norm() / theirs.norm() < 0.02


class Largest(TorchDispatchMode):
    """Remembers the most elements that any tensor had."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        result = function(*given, **(named or {}))
        self.elements = max([self.elements, *(leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))])
        return result


def test_no_tensor_is_as_large_as_the_logits() -> None:
    tokens, width, vocabulary, chunk = 512, 8, 1000, 16
    x, weight, targets = sample(tokens, width, vocabulary)
    with Largest() as ours:
        summed_cross_entropy(x, weight, targets, chunk=chunk).backward()
    assert ours.elements == max(chunk * vocabulary, tokens * width, vocabulary * width)
    with Largest() as plain:
        F.cross_entropy(x @ weight.mT, targets, ignore_index=IGNORED).backward()
    assert plain.elements == tokens * vocabulary


def test_without_gradient_nothing_is_kept() -> None:
    x, weight, targets = sample(10, 4, 7)
    with torch.no_grad():
        loss = summed_cross_entropy(x, weight, targets, chunk=3)
    assert not loss.requires_grad
