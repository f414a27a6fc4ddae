"""The Triton convolution against its definition in float64: values and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1, float32 only), where `test_triton_interpreted.py`
starts it.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from eigentrack.layers.short_convolution import ShortConvolution
from tests.closeness import TOLERANCE, relative_error

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
]
DEVICE = "cuda" if ON_GPU else "cpu"
PRECISIONS = [torch.float32, torch.bfloat16] if ON_GPU else [torch.float32]


def definition(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[B, L, C] → [B, L - W + 1, C], tap by tap and row by row."""
    rows = [
        sum((x[:, t + w] * weight[:, w] for w in range(weight.shape[1])), torch.zeros_like(x[:, 0]))
        for t in range(x.shape[1] - weight.shape[1] + 1)
    ]
    y = torch.stack(rows, 1)
    return y if bias is None else y + bias


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    ("batch", "time", "channels", "width"),
    [
        (1, 1, 1, 1),
        (2, 1, 3, 4),
        (3, 7, 129, 4),
        (2, 8, 128, 2),
        (2, 40, 70, 3),
        (1, 65, 200, 4),
        (5, 9, 16, 8),
        (1, 64, 64, 4),
        (2, 16, 32, 4),
        (4, 3, 5, 2),
    ],
)
def test_it_is_the_definition(batch: int, time: int, channels: int, width: int, with_bias: bool, dtype: torch.dtype) -> None:
    from eigentrack.recurrence.triton.short_convolution import short_convolution

    torch.manual_seed(time)
    x = torch.randn(batch, time + width - 1, channels, dtype=torch.float64)
    weight, bias = torch.randn(channels, width, dtype=torch.float64), torch.randn(channels, dtype=torch.float64)
    dy = torch.randn(batch, time, channels, dtype=torch.float64)
    exact = [given.to(dtype).double().requires_grad_() for given in ([x, weight, bias] if with_bias else [x, weight])]
    ours = [given.detach().to(DEVICE, dtype).requires_grad_() for given in exact]
    expected = definition(*exact, *([] if with_bias else [None]))
    found = short_convolution(*ours, *([] if with_bias else [None]))
    gradients = torch.autograd.grad(expected, exact, dy.to(dtype).double())
    our_gradients = torch.autograd.grad(found, ours, dy.to(DEVICE, dtype))
    allowed = 1e-2 if dtype == torch.bfloat16 else TOLERANCE[torch.float32]
    assert found.dtype == dtype
    for given, wanted in zip([found, *our_gradients], [expected, *gradients], strict=True):
        assert relative_error(given.cpu().double(), wanted) < allowed


@pytest.mark.skipif(not ON_GPU, reason="elsewhere the layer does not ask for the kernel")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_layer_is_the_same_on_a_gpu(bias: bool, packed: bool) -> None:
    torch.manual_seed(0)
    layer = ShortConvolution(50, 4, bias).cpu()
    batch, bounds = (1, torch.tensor([0, 2, 9, 30])) if packed else (3, None)
    x, window = torch.randn(batch, 30, 50, device="cpu"), torch.randn(3, 3, 50, device="cpu")
    here = layer(x, window, bounds)
    there = layer.cuda()(x.cuda(), window.cuda(), bounds)
    for ours, expected in zip(there, here, strict=True):
        torch.testing.assert_close(ours.cpu(), expected)
