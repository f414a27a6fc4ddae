"""AdamW over a model: what decays, the learning rate, the clipping of gradients, and the norms of each part of the model.

A tensor may be sharded over processes (a DTensor).  P parts of the model
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, distributed, nn

from eigentrack.layers.lstm import RecurrentGates
from eigentrack.models import SequenceModel
from eigentrack.training.config import OptimizationConfig


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


def model_parts(model: SequenceModel) -> dict[str, list[nn.Parameter]]:
    """Return the trained parameters of each part: embedding, the mixer and the MLP of each block, head.

    They come in the order of the forward pass; a norm belongs to what it feeds.
    """
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parts.setdefault(_part_of(name), []).append(parameter)
    return parts


def _part_of(parameter: str) -> str:
    top, *path = parameter.split(".")
    if top == "blocks":
        number, module, *_ = path
        return f"blocks.{number}.{'mixer' if module.startswith('mixer') else 'mlp'}"
    return "embedding" if top == "embedding" else "head"


def clip_gradients(parts: Iterable[Sequence[nn.Parameter]], limit: float) -> Float[Tensor, " P"]:
    """Scales the whole gradient down to the norm `limit` if it is above; the norm of each part before that."""
    gradients = [[_gradient(parameter) for parameter in part] for part in parts]
    each = _norms([gradient for part in gradients for gradient in part])
    scale = (limit / (torch.linalg.vector_norm(each) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([local(gradient) for part in gradients for gradient in part], scale)
    return _by_part(each, gradients)


def part_norms(parts: Sequence[Sequence[Tensor]]) -> Float[Tensor, " P"]:
    """The norm of all tensors of each part together."""
    return _by_part(_norms([tensor for part in parts for tensor in part]), parts)


def _norms(tensors: Sequence[Tensor]) -> Float[Tensor, " tensors"]:
    norms = torch.stack(torch._foreach_norm([local(tensor) for tensor in tensors]))
    if is_sharded(tensors[0]):
        squares = norms.square()
        distributed.all_reduce(squares, group=tensors[0].device_mesh.get_group())  # type: ignore[attr-defined]
        norms = squares.sqrt()
    return norms


def _by_part(norms: Float[Tensor, " tensors"], parts: Sequence[Sequence[Tensor]]) -> Float[Tensor, " P"]:
    return torch.stack([torch.linalg.vector_norm(part) for part in norms.split([len(part) for part in parts])])


def is_sharded(tensor: Tensor) -> bool:
    """Whether it is a DTensor, without the second that it takes to import what that is."""
    return hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """What lies on this process."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
