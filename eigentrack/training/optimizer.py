"""AdamW over a model, with weight decay on the matrices alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from eigentrack.layers.lstm import RecurrentGates
from eigentrack.models import SequenceModel
from eigentrack.training.gradient_norms import is_sharded
from eigentrack.training.optimization import OptimizationConfig


def make_optimizer(model: SequenceModel, config: OptimizationConfig) -> torch.optim.AdamW:
    """Weight decay on matrices that multiply activations: a bias, a filter, a gate's rate, a norm have no reason to shrink.

    On a GPU the learning rate and the count of steps lie on the device, so that a CUDA graph can hold the step.
    """
    matrices = {id(module.weight) for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding))}
    matrices |= {id(module.recurrent) for module in model.modules() if isinstance(module, RecurrentGates)}
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (config.weight_decay, 0.0)]
    for parameter in model.parameters():
        groups[id(parameter) not in matrices]["params"].append(parameter)
    example = next(model.parameters())
    if example.device.type != "cuda":
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
    if is_sharded(example):  # sharded over processes, which no graph holds
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)
    rate = torch.tensor(config.learning_rate, device=example.device)
    return torch.optim.AdamW(groups, lr=rate, betas=config.betas, capturable=True, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
