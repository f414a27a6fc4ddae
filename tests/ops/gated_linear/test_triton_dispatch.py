"""What Triton's gated linear attention refuses, and who runs then. Needs no GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.ops import gated_linear
from eigentrack.ops.gated_linear.op import refusal
from eigentrack.ops.shared import dispatch

interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def inputs(dtype: torch.dtype = torch.float32, channel: bool = False) -> list[Tensor]:
    return [torch.rand(shape, dtype=dtype) for shape in [(1, 6, 2, 4), (1, 6, 2, 4), (1, 6, 2, 3), (1, 6, 2, 4)[: 3 + channel]]]


@pytest.mark.skipif(torch.cuda.is_available() or interpreted, reason="there the kernel runs")
@pytest.mark.parametrize("channel", [False, True])
def test_without_a_gpu_the_chunked_form_runs_and_says_so(channel: bool) -> None:
    dispatch._warn_once.cache_clear()
    x = inputs(channel=channel)
    expected = gated_linear(*x, backend="chunked")
    with pytest.warns(UserWarning, match="gated_linear: backend 'triton' needs a GPU, and the input is on the cpu"):
        found = gated_linear(*x, backend="triton")
    for one in (found, gated_linear(*x)):
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(one, expected, strict=True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": torch.float64}, "takes float32 and bfloat16, and q is float64"),
        ({"channel": True}, None),
        ({"dtype": torch.bfloat16}, None),
    ],
)
def test_what_the_kernels_refuse(changed: dict[str, Any], message: str | None) -> None:
    assert refusal(*inputs(**changed), initial_state=None) == message


def test_wrong_bounds_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"cu_seqlens=\[0, 5\] must start at 0 and end at the number of tokens, 6"):
        gated_linear(*inputs(), cu_seqlens=torch.tensor([0, 5]))
