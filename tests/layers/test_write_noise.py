"""Noise on what DeltaNet writes: of the size asked for, while it learns, and never else."""

from __future__ import annotations

import math

import pytest
import torch

from eigentrack.layers import DeltaNet


def twins(noise: float, **options: bool) -> tuple[DeltaNet, DeltaNet]:
    """The same weights, without and with noise."""
    made = []
    for size in (0.0, noise):
        torch.manual_seed(0)
        made.append(DeltaNet(12, heads=2, conv=0, write_noise=size, **options))
    return made[0], made[1]


def test_nothing_is_noisy_where_nothing_is_learned() -> None:
    plain, noisy = (mixer.eval() for mixer in twins(3.0))
    x = torch.randn(2, 9, 12)
    assert torch.equal(plain(x)[0], noisy(x)[0])


def test_the_noise_has_the_size_asked_for() -> None:
    """`bare`, so that a single token's state is b k (v + noise)ᵀ."""
    plain, noisy = twins(0.5, bare=True)
    x = torch.randn(4000, 1, 12)
    with torch.no_grad():
        exact, found = (mixer(x)[1].memory[0] for mixer in (plain, noisy))
        written = plain.gates(x)["beta"][:, 0, :, 0, None] * plain.k_proj(x).unflatten(-1, (2, 6))[:, 0]  # b k: [B, H, K]
    noise = (found - exact) / written[..., None]
    assert math.isclose(float(noise[..., 0, :].std()), 0.5, rel_tol=0.05)
    assert abs(float(noise[..., 0, :].mean())) < 0.02


def test_another_step_draws_other_noise() -> None:
    _, noisy = twins(1.0)
    x = torch.randn(1, 5, 12)
    assert not torch.equal(noisy(x)[0], noisy(x)[0])


@pytest.mark.parametrize("noise", [-0.1, float("nan")])
def test_it_is_not_negative(noise: float) -> None:
    with pytest.raises(ValueError, match=f"write_noise={noise} must be 0 or more"):
        DeltaNet(12, heads=2, write_noise=noise)
