"""The kernel's losses and slopes against autograd in float64.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1, float32 only), in which the last test starts it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from eigentrack.ops.cross_entropy.op import IGNORED, summed_cross_entropy

pytest.importorskip("triton")
ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if ON_GPU else "cpu"
needs_a_kernel = pytest.mark.skipif(not ON_GPU and not INTERPRETED, reason="needs a GPU, or TRITON_INTERPRET=1")
in_the_interpreter = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")


@needs_a_kernel
@in_the_interpreter
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16] if ON_GPU else [torch.float32], ids=str)
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 1), (3, 7), (5, 4096), (2, 4097), (4, 9000)])
def test_losses_and_slopes_are_those_of_the_definition(rows: int, vocabulary: int, dtype: torch.dtype) -> None:
    from eigentrack.ops.cross_entropy.kernel import losses_of_rows

    torch.manual_seed(vocabulary)
    logits = (8 * torch.randn(rows, vocabulary)).to(dtype).to(DEVICE)
    targets = torch.randint(vocabulary, (rows,), device=DEVICE)
    targets[0] = vocabulary - 1
    targets[2:3] = IGNORED
    exact = logits.double().requires_grad_()
    losses = F.cross_entropy(exact, targets, ignore_index=IGNORED, reduction="none")
    (slope,) = torch.autograd.grad(losses.sum(), exact)

    kept = logits.clone()
    torch.testing.assert_close(losses_of_rows(kept, targets, IGNORED, slope=False).double(), losses, rtol=1e-5, atol=1e-5)
    assert torch.equal(kept, logits)
    torch.testing.assert_close(losses_of_rows(kept, targets, IGNORED, slope=True).double(), losses, rtol=1e-5, atol=1e-5)
    tolerance = 1e-5 if dtype == torch.float32 else 5e-3
    torch.testing.assert_close(kept.double(), slope, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_on_a_gpu_the_whole_loss_is_the_plain_one() -> None:
    x = torch.randn(50, 16, device="cuda", requires_grad=True)
    weight = torch.randn(5000, 16, device="cuda", requires_grad=True)
    targets = torch.randint(5000, (50,), device="cuda")
    targets[::7] = IGNORED
    found = summed_cross_entropy(x, weight, targets, chunk=8)
    expected = F.cross_entropy(x.double() @ weight.double().mT, targets, ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-3)
    for ours, theirs in zip(torch.autograd.grad(found, (x, weight)), torch.autograd.grad(expected, (x, weight)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(ON_GPU or INTERPRETED, reason="the tests above run as they are")
def test_under_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "5 passed" in result.stdout
