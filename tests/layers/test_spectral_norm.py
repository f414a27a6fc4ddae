"""The spectral norm by repeated squaring beside singular values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.layers.dense import spectral_norm

N = 9


def orthogonal(dtype: torch.dtype) -> Tensor:
    return torch.linalg.qr(torch.randn(4, N, N, dtype=dtype)).Q


CASES = {
    "random": lambda dtype: torch.randn(20, N, N, dtype=dtype),
    "orthogonal": orthogonal,
    "permutations": lambda dtype: torch.eye(N, dtype=dtype)[torch.stack([torch.randperm(N) for _ in range(5)])],
    "rank one": lambda dtype: torch.randn(6, N, 1, dtype=dtype) @ torch.randn(6, 1, N, dtype=dtype),
    "nearly equal values": lambda dtype: orthogonal(dtype) * (1 + 1e-3 * torch.rand(N, dtype=dtype)),
    "large and small": lambda dtype: (
        torch.randn(3, N, N, dtype=dtype) * torch.tensor([1e-9, 1.0, 1e9], dtype=dtype)[:, None, None]
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_largest_singular_value(name: str, dtype: torch.dtype) -> None:
    matrices = CASES[name](dtype)
    expected = torch.linalg.matrix_norm(matrices.double().cpu(), ord=2, keepdim=True)  # LAPACK's, wherever the matrices are
    error = (spectral_norm(matrices).double().cpu() / expected - 1).abs().max()
    assert error < 20 * torch.finfo(dtype).eps


@pytest.mark.parametrize("n", [1, 2, 3, 32, 128])
def test_the_identity_stays_itself(n: int) -> None:
    assert spectral_norm(torch.eye(n)).item() == 1


def test_zero() -> None:
    matrices = torch.zeros(2, N, N, requires_grad=True)
    norm = spectral_norm(matrices).clamp_min(1.0)
    (norm.sum() + matrices.sum()).backward()
    assert (norm == 1).all()
    assert (matrices.grad == 1).all()


def test_gradients() -> None:
    assert torch.autograd.gradcheck(spectral_norm, torch.randn(5, 4, 4, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["permutations", "orthogonal"])
def test_where_all_values_are_equal_the_gradient_is_their_mean(name: str, dtype: torch.dtype) -> None:
    matrices = CASES[name](torch.float64).to(dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(spectral_norm(matrices).sum(), matrices)
    if dtype == torch.float64 or name == "permutations":  # rounded to float32, values differ
        assert torch.allclose(gradient, matrices.detach() / N, atol=1e-5)
    assert torch.allclose((gradient * matrices).sum((-2, -1)), torch.ones((), dtype=dtype))


def test_second_derivatives() -> None:
    matrices = torch.randn(5, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(spectral_norm, matrices)
    (linear,) = torch.autograd.grad(spectral_norm(matrices).sum(), matrices, create_graph=True)
    assert linear.requires_grad  # also where the gradient that comes in does not depend on the matrices
