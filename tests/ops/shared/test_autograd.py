"""The wrapper that makes kernels differentiable, around plain torch: y = scale · x · w + shift, and its largest entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from eigentrack.ops.shared.autograd import DifferentiableKernels


class Inputs(NamedTuple):
    x: Tensor
    w: Tensor
    shift: Tensor | None
    marks: Tensor | None
    scale: float


class Outputs(NamedTuple):
    y: Tensor
    largest: Tensor


class Saved(NamedTuple):
    product: Tensor | None
    never: Tensor | None


class Gradients(NamedTuple):
    dx: Tensor
    dw: Tensor
    dshift: Tensor | None


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    y = inputs.scale * inputs.x.double() * inputs.w + (0 if inputs.shift is None else inputs.shift)
    return Outputs(y, y.max()), Saved(inputs.x.double() + 0 if save else None, None)


def backward(inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, ...], wanted: tuple[bool, ...]) -> Gradients:
    assert inputs.x is None, "a forgotten input was kept"
    assert saved.product is not None
    dy = doutputs[0]
    assert dy is not None
    assert dy.is_contiguous()
    SEEN.append(wanted)
    return Gradients(
        inputs.scale * dy * inputs.w,
        inputs.scale * dy * saved.product,
        None if inputs.shift is None else dy.clone(),
    )


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    y = inputs.x.new_empty(inputs.x.shape, dtype=torch.float64)
    return Outputs(y, y.new_empty(())), Saved(torch.empty_like(y) if save else None, None)


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    def like() -> Tensor:
        return torch.empty_like(inputs.w, dtype=torch.float64)

    return Gradients(like(), like(), None if inputs.shift is None else like())


SEEN: list[tuple[bool, ...]] = []
LAUNCHES = SimpleNamespace(
    **{"Inputs": Inputs, "Outputs": Outputs, "Saved": Saved, "Gradients": Gradients},
    **{"forward": forward, "backward": backward, "allocate": allocate, "allocate_gradients": allocate_gradients},
)
KERNELS = DifferentiableKernels("test_of_the_wrapper", LAUNCHES, forgotten=("x",), constant=("largest",))


def plain(x: Tensor, w: Tensor, shift: Tensor | None, scale: float) -> Tensor:
    return scale * x.double() * w + (0 if shift is None else shift)


def draw(with_shift: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    x, w, shift = torch.randn(5, dtype=torch.float32), torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    return x.requires_grad_(), w.requires_grad_(), shift.requires_grad_() if with_shift else None


@pytest.mark.parametrize("as_operator", [False, True])
@pytest.mark.parametrize("with_shift", [False, True])
def test_values_and_gradients(with_shift: bool, as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    x, w, shift = draw(with_shift)
    leaves = [leaf for leaf in (x, w, shift) if leaf is not None]
    y, largest = KERNELS(x, w, shift, torch.ones(2, dtype=torch.int64), 0.3)
    expected = plain(x, w, shift, 0.3)
    torch.testing.assert_close(y, expected)
    assert not largest.requires_grad
    weight = torch.randn(10, dtype=torch.float64)[::2]  # not contiguous
    found, wanted = (torch.autograd.grad(of, leaves, weight) for of in (y, expected))
    for ours, theirs, leaf in zip(found, wanted, leaves, strict=True):
        assert ours.dtype == leaf.dtype
        torch.testing.assert_close(ours, theirs)
    assert SEEN[-1][:2] == (True, True)


@pytest.mark.parametrize("as_operator", [False, True])
@pytest.mark.parametrize("of", ["x", "w"])
def test_second_derivatives_are_refused(of: str, as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those by x, which the backward pass does not read: its kernels took from it what they saved."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    x, w, _ = draw(False)
    y, _ = KERNELS(x, w, None, None, 0.3)
    with pytest.raises(NotImplementedError, match="test_of_the_wrapper: the backend 'triton' has no second derivatives"):
        torch.autograd.grad(y.sum(), {"x": x, "w": w}[of], create_graph=True)


def test_without_gradients_nothing_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    saves: list[bool] = []
    monkeypatch.setattr(LAUNCHES, "forward", lambda inputs, save: saves.append(save) or forward(inputs, save))
    x, w, _ = draw(False)
    with torch.no_grad():
        y, _ = KERNELS(x, w, None, None, 2.0)
    assert not y.requires_grad
    y, _ = KERNELS(x.detach(), w.detach(), None, None, 2.0)
    y, _ = KERNELS(x, w, None, None, 2.0)
    assert y.requires_grad
    assert saves == [False, False, True]


def test_it_is_an_operator_of_torch() -> None:
    x, w, shift = draw(True)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    for arguments in ((x, w, shift, None, 0.5, True), (x, w, None, None, 0.5, False)):
        torch.library.opcheck(torch.ops.eigentrack.test_of_the_wrapper, arguments, test_utils=checks)


def test_the_schema_is_the_inputs() -> None:
    schema: Any = torch.ops.eigentrack.test_of_the_wrapper.default._schema
    assert [str(argument.type) for argument in schema.arguments] == [
        *("Tensor", "Tensor", "Optional[Tensor]", "Optional[Tensor]", "float", "bool")
    ]
