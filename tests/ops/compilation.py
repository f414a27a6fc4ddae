"""What an op must give under torch.compile: one graph, the same gradients, one compilation for many lengths."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from tests.closeness import TOLERANCE, relative_error

without_type_checks = pytest.mark.skipif(
    importlib.util.find_spec("beartype") is not None,
    reason="type checks break graphs; the tests that start the interpreter run this one without them",
)


def assert_no_graph_break(loss: Callable[..., Tensor], leaves: list[Tensor]) -> None:
    """Compiled as a whole, its gradients are those of the loss as it is."""
    expected = torch.autograd.grad(loss(*leaves), leaves)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*leaves), leaves)
    _assert_same(found, expected)


def compilations_by_length(op: Callable[..., tuple[Tensor, ...]], draws: Iterable[list[Tensor]]) -> list[int]:
    """How often it has been compiled after each of the draws, whose lengths differ; outputs and gradients are the op's own."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(op, fullgraph=True, backend=counter, dynamic=True)
    counts = []
    for leaves in draws:
        plain, found = list(op(*leaves)), list(compiled(*leaves))
        for outputs in (plain, found):
            outputs += torch.autograd.grad(outputs[0].sum() + outputs[1].sum(), leaves)
        _assert_same(found, plain)
        counts.append(counter.frame_count)
    return counts


def _assert_same(found: Iterable[Tensor], expected: Iterable[Tensor]) -> None:
    for ours, plain in zip(found, expected, strict=True):
        assert relative_error(ours, plain) <= TOLERANCE[torch.float32]
