"""Norms of a model's gradients, or of other tensors of its parts; a tensor may be sharded over processes (a DTensor).

P parts of the model
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, distributed, nn


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
