"""The paper's solution of parity, written into the parameters of a layer: eigenvalue -1 on a one, 1 on a zero.

H_t = -H_{t-1} + b on a one and H_t = H_{t-1} on a zero, so the memory alternates between 0 and b with the ones. All values
are small dyadic numbers, so that no order of evaluation rounds. Bit 0 is the input (1, 0), bit 1 is (0, 1).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from eigentrack.layers import DeltaNet, Mamba, Mixer
from eigentrack.spectrum import EigenRange

SATURATED = 32.0  # silu(32) = 32 in every float format: the sigmoid has closed


def embed(bits: Int[Tensor, "B T"], dtype: torch.dtype) -> Float[Tensor, "B T 2"]:
    return nn.functional.one_hot(bits, 2).to(dtype)


def odd(y: Float[Tensor, "... 2"]) -> Int[Tensor, "..."]:
    """The memory shows in the first channel: zero, or not."""
    return (y[..., 0].abs() > 0.1).long()


def parity_delta_net(dtype: torch.dtype, backend: str = "auto") -> DeltaNet:
    layer = DeltaNet(2, heads=1, conv=0, eigenvalues=EigenRange(-1, 1), backend=backend).to(dtype)
    both, one = torch.ones(2), torch.tensor([0.0, 1.0])
    with torch.no_grad():
        for weight in (layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight, layer.out_proj.weight):
            weight.zero_()
        layer.q_proj.weight[0] = SATURATED * both  # the unit query and key (1, 0) on either bit
        layer.k_proj.weight[0] = SATURATED * both
        layer.v_proj.weight[0] = SATURATED * one
        layer.beta_proj.weight[0] = torch.tensor([-110.0, 40.0])  # b = 0 and b = 2, exactly
        layer.out_proj.weight[0, 0] = 1.0
    return layer


def parity_mamba(dtype: torch.dtype, backend: str = "auto") -> Mamba:
    layer = Mamba(2, expand=1, state_size=1, dt_rank=1, conv=0, eigenvalues=EigenRange(-1, 1), backend=backend).to(dtype)
    both, one = torch.ones(2), torch.tensor([0.0, 1.0])
    with torch.no_grad():
        # channels u = (bit, constant), gates z = constant
        layer.in_proj.weight.copy_(SATURATED * torch.stack([one, both, both, both]))
        # from u: Δ's logit and the input matrix from the bit, the read-out from the constant
        layer.x_proj.weight.copy_(torch.tensor([[1.0, 0.0], [2.0**-16, 0.0], [0.0, 2.0**-5]]))
        layer.dt_proj.weight.fill_(5.125)  # 5.125 · 32 - 100 = 64 on a one: e^-64 makes the eigenvalue -1
        layer.dt_proj.bias.fill_(-100.0)  # Δ ≈ 4e-44 on a zero: the eigenvalue is 1
        layer.log_rate.zero_()
        layer.skip.zero_()
        layer.out_proj.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    return layer


SOLUTIONS = {"deltanet": parity_delta_net, "mamba": parity_mamba}


def build_solution(name: str, dtype: torch.dtype, backend: str = "auto") -> Mixer:
    return SOLUTIONS[name](dtype, backend)
