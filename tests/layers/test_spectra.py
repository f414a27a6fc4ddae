"""Proposition 1.3, in the form that holds for every number of factors: with each factor's eigenvalue in [0, 1], every
eigenvalue of every product is 1 or of modulus below 1. (It can be negative, or complex.)"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.layers import DeltaNet, LinearMixer
from eigentrack.spectrum import EigenRange
from tests.layers.layer_cases import D_MODEL, build

NARROW = EigenRange(0, 1)
LAYERS = [
    ("mamba", {"state_size": 3}),
    ("mamba2", {"heads": 4, "state_size": 3}),
    ("gla", {"heads": 3, "gate_temperature": 1.0}),
    ("mlstm", {"heads": 3}),
    ("deltanet", {"heads": 3}),
    ("deltanet", {"heads": 3, "householders": 3}),
    ("deltanet", {"heads": 2, "householders": 2, "gate": NARROW}),
]


def word_products(layer: LinearMixer, words: int = 40, letters: int = 8) -> Tensor:
    """The products of A(x_t) over random words, with strong inputs so that gates come near their ends."""
    x = 8 * torch.randn(words, letters, D_MODEL, dtype=torch.float64)
    matrices = layer.transitions(x)
    product = matrices[:, 0]
    for t in range(1, letters):
        product = matrices[:, t] @ product
    return product


def unit_but_not_one(eigenvalues: Tensor) -> Tensor:
    return (eigenvalues.abs() > 1 - 1e-9) & ((eigenvalues - 1).abs() > 1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("name", "options"), LAYERS, ids=str)
def test_narrow_products_have_eigenvalue_one_or_modulus_below_one(name: str, options: dict) -> None:
    layer = build(name, {**options, "eigenvalues": NARROW})
    assert isinstance(layer, LinearMixer)
    eigenvalues = torch.linalg.eigvals(word_products(layer))
    assert eigenvalues.abs().max() <= 1 + 1e-9
    assert not unit_but_not_one(eigenvalues).any()


@torch.no_grad()
@pytest.mark.parametrize(("name", "options"), LAYERS, ids=str)
def test_wide_products_escape_it(name: str, options: dict) -> None:
    """The same check fails in [-1, 1]: with logits this strong some gate is -1 to nine digits."""
    layer = build(name, {**options, "eigenvalues": EigenRange(-1, 1)})
    with torch.no_grad():
        for weight in layer.parameters():
            weight.mul_(8)
    assert isinstance(layer, LinearMixer)
    assert unit_but_not_one(torch.linalg.eigvals(word_products(layer, words=200, letters=1))).any()


def test_narrow_products_of_three_can_have_negative_eigenvalues() -> None:
    """So "never negative" would be a wrong test: three factors with b in [0.7, 1] are enough."""
    generator = torch.Generator().manual_seed(0)
    keys = torch.nn.functional.normalize(torch.randn(200_000, 3, 3, dtype=torch.float64, generator=generator), dim=-1)
    betas = 0.7 + 0.3 * torch.rand(200_000, 3, dtype=torch.float64, generator=generator)
    factors = torch.eye(3, dtype=torch.float64) - torch.einsum("nf,nfi,nfj->nfij", betas, keys, keys)
    eigenvalues = torch.linalg.eigvals(factors[:, 2] @ factors[:, 1] @ factors[:, 0])
    assert eigenvalues.real.min() < -0.05
    assert eigenvalues.imag.abs().max() > 0.05
    assert eigenvalues.abs().max() <= 1 + 1e-9


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_keys_keep_the_eigenvalue_in_its_range(dtype: torch.dtype) -> None:
    """The keys are rounded, so |k|² is off by some 2⁻⁸; b makes up for it, down to -1 and no further."""
    mixer = build("deltanet", {"heads": 3, "conv": 0}, dtype)
    assert isinstance(mixer, DeltaNet)
    x = (30 * torch.randn(4, 50, D_MODEL)).to(dtype)
    with torch.no_grad():
        _, k, _, beta, _ = mixer._factors(x, None, None)
        assert k.dtype == dtype
        assert (k.float().square().sum(-1) - 1).abs().max() > 2**-12  # there is something to make up for
        eigenvalues = torch.linalg.eigvals(mixer.transitions(x))
    assert beta.dtype == torch.float32
    assert eigenvalues.abs().max() < 1 + 1e-6
    assert eigenvalues.real.min() < -1 + 1e-3
