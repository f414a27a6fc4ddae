"""FLOPs of a model per token, from its definition: 2 for every multiply-add of a projection, a filter or the recurrence.

The count follows the recurrence, not the algorithm that computes it, so that utilisation compares algorithms:
  delta rule      n factors: kᵀS and S + k wᵀ, 4 KV each; the gate, KV; the read-out Sᵀq, 2 KV    for each head
  diagonal gates  a S, KV; + k vᵀ, 2 KV; the read-out, 2 KV                                  for each head (Mamba, S4D: KV = DN)
  RWKV-7          what diagonal gates cost, and κᵀS and S - (a ⊙ κ) zᵀ, 4 KV                     for each head
  rotations       R S, 3 KV, if the eigenvalues, or DeltaNet's gates, lie in a disk
Activations, norms and the lookup of embeddings are left out. A training step costs three forward passes.
"""

from __future__ import annotations

import math
import time

import torch
from torch import nn

from eigentrack.layers import GLA, RWKV7, S4D, DeltaNet, Mamba, Mamba2, Mixer
from eigentrack.layers.mixer import ShortConvolution
from eigentrack.models import SequenceModel

DIAGONAL_ENTRY = 5  # FLOPs per entry of the state: decay, outer product, sum, read-out
RWKV7_ENTRY = DIAGONAL_ENTRY + 4
TURNING_ENTRY = 3  # two products and a sum for each entry of R S
FORWARD_PASSES = 3  # the cost of a training step: the backward pass has twice the products of the forward pass


def training_flops(model: SequenceModel) -> int | None:
    """Return the FLOPs of a training step per token; None if a layer's recurrence cannot be counted."""
    total = projection_flops(model)
    for mixer in (module for module in model.modules() if isinstance(module, Mixer)):
        count = recurrence_flops(mixer)
        if count is None:
            return None
        total += count
    return FORWARD_PASSES * total


def projection_flops(model: nn.Module) -> int:
    """Return the FLOPs per token of the matrices and short convolutions, in the forward pass."""
    return sum(2 * module.weight.numel() for module in model.modules() if isinstance(module, (nn.Linear, ShortConvolution)))


def recurrence_flops(mixer: Mixer) -> int | None:
    """Return the FLOPs per token of a mixer's recurrence, in the forward pass; None if it is unknown."""
    if isinstance(mixer, DeltaNet):
        turning = 0 if mixer.turn_proj is None else TURNING_ENTRY
        return math.prod(mixer.memory_shape) * (4 * mixer.householders + 2 + (mixer.gate is not None) + turning)
    if isinstance(mixer, RWKV7):
        return math.prod(mixer.memory_shape) * RWKV7_ENTRY
    if isinstance(mixer, (Mamba, Mamba2, GLA, S4D)):
        turning = TURNING_ENTRY if mixer.eigenvalues.turns else 0
        return math.prod(mixer.memory_shape) * (DIAGONAL_ENTRY + turning)
    return None


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Measure the most FLOPs per second of a large matrix product on the device; utilisation is a share of it."""
    size, products = (8192, 8) if device.type == "cuda" else (768, 1)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(4):  # the first round also warms up
        _wait(device)
        start = time.perf_counter()
        for _ in range(products):
            a @ b
        _wait(device)
        seconds.append(time.perf_counter() - start)
    return products * 2 * size**3 / min(seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
