"""RWKV-7 against its equations, written out token by token with whole matrices; and what its docstring says of the spectrum."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from eigentrack.layers import RWKV7
from eigentrack.spectrum import EigenRange
from tests.closeness import assert_close
from tests.layers.layer_cases import D_MODEL, build

RANGES = [EigenRange(0, 1), EigenRange(-1, 1), EigenRange(-0.5, 0.9)]


@pytest.mark.parametrize("eigenvalues", RANGES, ids=str)
def test_it_is_its_equations(eigenvalues: EigenRange) -> None:
    heads, width = 3, D_MODEL // 3
    mixer = build("rwkv7", {"heads": heads, "rank": 4, "eigenvalues": eigenvalues})
    assert isinstance(mixer, RWKV7)
    x = torch.randn(1, 7, D_MODEL, dtype=torch.float64)
    found, _ = mixer(x)
    before, memory = torch.zeros(D_MODEL, dtype=torch.float64), torch.zeros(heads, width, width, dtype=torch.float64)
    for t, token in enumerate(x[0]):
        r, w, k, v, a, g = ((1 - share) * token + share * before for share in mixer.shift)
        decay = torch.exp(-math.exp(-0.5) * torch.sigmoid(mixer.w_proj(w)))
        rate = torch.sigmoid(mixer.a_proj(a))
        w = eigenvalues.low + (eigenvalues.high - eigenvalues.low) * decay
        key, value, query = mixer.k_proj(k), mixer.v_proj(v), mixer.r_proj(r)
        written = key * (1 - mixer.write_mix) + key * rate * mixer.write_mix
        y = []
        for head in range(heads):
            one = slice(head * width, (head + 1) * width)
            kappa = F.normalize(key[one] * mixer.erase_scale[one], dim=0)
            erase = (w[one] - eigenvalues.low) * rate[one] * kappa
            matrix = torch.diag(w[one]) - torch.outer(erase, kappa)
            memory[head] = matrix @ memory[head].detach() + torch.outer(written[one], value[one])
            read = F.layer_norm(
                memory[head].T @ query[one], (width,), mixer.norm.weight[one], mixer.norm.bias[one], width * 1e-5
            )
            y.append(read + (query[one] * written[one] * mixer.bonus[head]).sum() * value[one])
        assert_close(found[0, t], mixer.out_proj(mixer.g_proj(g) * torch.cat(y)), f"token {t}")
        before = token


@torch.no_grad()
@pytest.mark.parametrize("eigenvalues", RANGES, ids=str)
def test_the_range_is_reached_and_the_norm_may_exceed_it(eigenvalues: EigenRange) -> None:
    mixer = build("rwkv7", {"heads": 3, "rank": 4, "eigenvalues": eigenvalues})
    assert isinstance(mixer, RWKV7)
    mixer.w_proj[2].bias.fill_(-60.0)  # no decay
    mixer.a_proj[1].bias.fill_(60.0)  # all is erased along κ
    x = torch.randn(2, 50, D_MODEL, dtype=torch.float64)
    lowest = torch.linalg.eigvals(mixer.transitions(x)).real.amin(-1)
    assert (lowest - eigenvalues.low).abs().max() < 1e-9
    mixer.a_proj[1].bias.copy_(torch.linspace(-20, 20, D_MODEL)[torch.randperm(D_MODEL)])  # rates that differ
    assert torch.linalg.matrix_norm(mixer.transitions(x), ord=2).max() > eigenvalues.high + 0.01


def test_as_published_the_eigenvalues_reach_from_minus_0_455_to_1() -> None:
    fastest = math.exp(-math.exp(-0.5))
    kappa = F.normalize(torch.randn(10_000, 4, dtype=torch.float64), dim=-1)
    w = fastest + (1 - fastest) * torch.rand(10_000, 4, dtype=torch.float64).round()
    matrices = torch.diag_embed(w) - kappa[..., :, None] * kappa[..., None, :]  # all rates are 1
    eigenvalues = torch.linalg.eigvalsh(matrices)
    assert eigenvalues.min() >= fastest - 1 - 1e-9
    assert eigenvalues.min() < -0.44
    assert eigenvalues.max() <= 1 + 1e-9
