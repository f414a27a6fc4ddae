"""AdamW for a model: its parameter groups, its learning rate, gradient clipping, and norms by part of the model.

Tensors may be sharded over processes (DTensor).  P parts of the model
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
    """Return AdamW with weight decay on the matrices of linear layers, embeddings and recurrences only.

    Biases, filters, rates of gates and norms do not decay. On a GPU, unless the model is sharded, the learning rate and the
    count of steps are tensors on the device, so that a CUDA graph can capture the step.
    """
    matrices = {id(module.weight) for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding))}
    matrices |= {id(module.recurrent) for module in model.modules() if isinstance(module, RecurrentGates)}
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (config.weight_decay, 0.0)]
    for parameter in model.parameters():
        groups[id(parameter) not in matrices]["params"].append(parameter)
    example = next(model.parameters())
    if example.device.type != "cuda":
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
    if is_sharded(example):  # a step of sharded weights is never captured in a CUDA graph
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)
    rate = torch.tensor(config.learning_rate, device=example.device)
    return torch.optim.AdamW(groups, lr=rate, betas=config.betas, capturable=True, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups, in place if it is a tensor on the device."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def model_parts(model: SequenceModel) -> dict[str, list[nn.Parameter]]:
    """Return the trained parameters of each part: embedding, the mixer and the MLP of each block, head.

    The parts are in the order of the forward pass; the norm of a mixer or MLP belongs to its part, the last norm to the head.
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
    """Scale the gradient down to the norm `limit` if its norm is larger, and return the norm of each part before that."""
    gradients = [[_gradient(parameter) for parameter in part] for part in parts]
    each = _norms([gradient for part in gradients for gradient in part])
    scale = (limit / (torch.linalg.vector_norm(each) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([local(gradient) for part in gradients for gradient in part], scale)
    return _by_part(each, gradients)


def part_norms(parts: Sequence[Sequence[Tensor]]) -> Float[Tensor, " P"]:
    """Return, for each part, the norm of all of its tensors together."""
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
    """Return whether a tensor is a DTensor, without importing the class, which takes a second."""
    return hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this process holds: all of it, unless it is sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
