"""What all twins share: random weights, the peer's plain PyTorch path in a chosen precision, and how near is equal."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from eigentrack.models import SequenceModel
from tests.closeness import TWIN_TOLERANCE


@pytest.fixture(params=TWIN_TOLERANCE, ids=str)
def dtype(request) -> torch.dtype:
    return request.param


@pytest.fixture
def assert_same() -> Callable[[Tensor, Tensor, str], None]:
    def check(ours: Tensor, theirs: Tensor, what: str) -> None:
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), what
        size = theirs.abs().max().item()
        assert size > 1e-3, f"{what}: all about zero, so that equality would say nothing"
        error = (ours - theirs).abs().max().item() / size
        assert error <= TWIN_TOLERANCE[ours.dtype], f"{what}: relative difference {error:.1e}"

    return check


@pytest.fixture
def assert_same_gradients(assert_same) -> Callable[..., None]:
    def check(
        ours: nn.Module, output: Tensor, theirs: nn.Module, expected: Tensor, in_our_names: Callable[[dict], dict]
    ) -> None:
        """Every parameter's gradient is the same, and none of its entries is zero: all of them matter to the output."""
        weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2), dtype=expected.dtype)
        gradients, their_gradients = (
            dict(zip(parameters, torch.autograd.grad((weight * y).sum(), list(parameters.values())), strict=True))
            for y, parameters in ((output, dict(ours.named_parameters())), (expected, dict(theirs.named_parameters())))
        )
        expected_gradients = in_our_names(their_gradients)
        assert set(gradients) == set(expected_gradients)
        for name, gradient in gradients.items():
            assert gradient.count_nonzero() == gradient.numel(), f"the output ignores entries of {name}"
            assert_same(gradient, expected_gradients[name], f"gradient of {name}")

    return check


class FloatMeansDouble(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(_doubled, args), **{name: _doubled(value) for name, value in (kwargs or {}).items()})


def _doubled(value: object) -> object:
    return torch.float64 if value is torch.float32 else value


@pytest.fixture
def peer_in() -> Callable[[torch.dtype], AbstractContextManager]:
    """`with peer_in(dtype)` the peer computes in that precision throughout.

    The peers cast norms, gates and states to float32 even in a float64 model, which would leave 1e-7 of difference to
    explain. Within this context those casts go to float64; nothing else of the peer changes.
    """
    return lambda dtype: FloatMeansDouble() if dtype == torch.float64 else contextlib.nullcontext()


@pytest.fixture
def on_torch_path(monkeypatch) -> Callable[[ModuleType], None]:
    """transformers prefers the kernels of other packages where they are installed; this leaves it with its own functions."""

    def use_own_functions(modeling: ModuleType) -> None:
        for name, value in vars(modeling).items():
            if inspect.isfunction(value) and value.__module__ == modeling.__name__:
                monkeypatch.setattr(modeling, name, inspect.unwrap(value))

    return use_own_functions


@pytest.fixture
def randomise() -> Callable[[nn.Module], None]:
    """Gaussian weights of gain one; Gaussian biases, rates and norms: no parameter stays at a 0 or 1 that hides it."""

    def draw(module: nn.Module) -> None:
        generator = torch.Generator().manual_seed(2)
        for parameter in module.parameters():
            fan_in = parameter[0].numel()
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * fan_in**-0.5

    return draw


@pytest.fixture
def prefill_then_steps() -> Callable[[SequenceModel, Tensor, int], Tensor]:
    """The logits of our model when the first `prefill` tokens come at once and the others one by one."""

    def run(model: SequenceModel, tokens: Tensor, prefill: int) -> Tensor:
        logits, state = [], None
        if prefill:
            first, state = model(tokens[:, :prefill])
            logits += first.unbind(1)
        for token in tokens[:, prefill:].unbind(1):
            now, state = model.step(token, state)
            logits.append(now)
        return torch.stack(logits, dim=1)

    return run
